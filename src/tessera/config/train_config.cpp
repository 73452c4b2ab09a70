#include "tessera/config/train_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>

#include "tessera/base/check.h"
#include "tessera/config/fields.h"
#include "tessera/plan/head_split.h"

namespace tessera {
namespace {

void check_data(const DataSection& data) {
  TSR_CHECK(!data.paths.empty(), "data.paths is empty; give --data FILE or FOLDER");
  TSR_CHECK(data.weights.empty() || data.weights.size() == data.paths.size(), "data.weights has ",
            data.weights.size(), " numbers for ", data.paths.size(),
            " data.paths; give one per path, or none");
}

void check_optim(const OptimSection& optim) {
  TSR_CHECK(optim.beta1 < 1 && optim.beta2 < 1, "optim.beta1=", optim.beta1,
            ", optim.beta2=", optim.beta2, "; both must be below 1");
  TSR_CHECK(optim.decay == 0 || optim.schedule == "wsd", "optim.decay=", optim.decay,
            " needs optim.schedule wsd, but it is ", optim.schedule, "; leave one out");
  TSR_CHECK(optim.momentum == 0 || optim.kind == "sgd", "optim.momentum=", optim.momentum,
            " needs optim.kind sgd, but it is ", optim.kind, "; leave one out");
}

void check_average(const TrainConfig& config) {
  const double decay = config.optim.ema_decay;
  TSR_CHECK(decay < 1, "optim.ema_decay=", decay,
            " would never change the average; choose less than 1, e.g. 0.999");
  TSR_CHECK(decay == 0 || config.run.save_every > 0 || config.train.validate_ema, "--ema-decay ",
            decay, " without --save-every and --validate-ema: nothing would use the average; give ",
            "one of them as well, or leave it out");
  TSR_CHECK(!config.train.validate_ema || (decay > 0 && config.train.validate_every > 0),
            "--validate-ema needs --ema-decay and train.validate_every above 0; give them as well, "
            "or leave it out");
}

void check_rollback(const TrainConfig& config) {
  TSR_CHECK(config.optim.non_finite != "rollback" || config.run.save_every > 0,
            "--non-finite rollback needs checkpoints; give --save-every as well, or choose skip");
  TSR_CHECK(config.optim.spike == 0 || config.optim.spike > 1, "optim.spike=", config.optim.spike,
            " would make every other step a spike; choose more than 1, e.g. 10, or 0");
}

void check_ranks(const ParallelSection& parallel) {
  const int64_t product = parallel.dp * parallel.tp * parallel.cp * parallel.pp;
  TSR_CHECK(product == parallel.nproc, "dp·tp·cp·pp is ", product, " (dp=", parallel.dp,
            ", tp=", parallel.tp, ", cp=", parallel.cp, ", pp=", parallel.pp, "), but --nproc is ",
            parallel.nproc, "; leave --nproc out, or change the degrees");
  train_plan(parallel.nproc, dims_of(parallel), context_of(parallel).sizes);
}

// What only sharded parameters can do.
void check_sharding(const ParallelSection& parallel) {
  const ParallelDims dims = dims_of(parallel);
  const auto needs_shards = [&](bool asked, std::string_view key, const auto& value) {
    TSR_CHECK(!asked || dims.shards() > 1, "parallel.", key, "=", value, " needs shards, but --dp ",
              parallel.dp, " --dp-type ", parallel.dp_type,
              " has none; use --dp-type fsdp, hsdp or zero1 on several ranks, or leave it out");
  };
  needs_shards(parallel.reshard == "smaller", "reshard", parallel.reshard);
  needs_shards(parallel.reduce == "each", "reduce", parallel.reduce);
  needs_shards(parallel.offload, "offload", "true");
  needs_shards(parallel.compute_dtype != "same", "compute_dtype", parallel.compute_dtype);
  TSR_CHECK(parallel.reshard != "smaller" || dims.shards() % parallel.reshard_size == 0,
            "parallel.reshard_size=", parallel.reshard_size, " does not divide the ", dims.shards(),
            " shards; choose a divisor");
  TSR_CHECK(parallel.reduce == "once" || parallel.pp == 1, "parallel.reduce=", parallel.reduce,
            " with a pipeline, which reduces gradients once per step; leave it out");
}

// The divisors next to a number that does not divide `total`.
std::string nearest_divisors(int64_t total, int64_t wrong) {
  int64_t below = std::min(wrong, total);
  while (total % below != 0) --below;
  if (wrong > total) return std::to_string(below);
  int64_t above = wrong;
  while (total % above != 0) ++above;
  return concat(below, ", ", above);
}

void check_tensor(const TrainConfig& config) {
  const int64_t seq = config.data.seq;
  const int64_t tp = config.parallel.tp;
  const int64_t cp = config.parallel.cp;
  const bool has_shares = seq % cp == 0;  // Otherwise the layout of cp refuses the length.
  if (config.parallel.sp && has_shares && seq / cp % tp != 0) {
    throw ConfigError(concat("data.seq=", seq, " is not a multiple of ",
                             cp == 1 ? "" : concat("--cp ", cp, " × "), "--tp ", tp,
                             ", whose ranks share the positions; choose another length, or give "
                             "--no-sp; nearest legal degrees: ",
                             nearest_divisors(seq / cp, tp)));
  }
  TSR_CHECK(!config.parallel.tp_async || (tp > 1 && config.parallel.sp),
            "--tp-async needs --tp above 1 and sequence parallelism; leave it out");
}

void check_context(const ParallelSection& parallel) {
  TSR_CHECK(
      parallel.cp > 1 || context_of(parallel) == ContextParallelOptions{},
      "--cp-type, --cp-layout, --cp-sizes and parallel.cp_head_stride need --cp above 1; give "
      "it as well, or leave them out");
}

void check_documents(const TrainConfig& config) {
  const DataSection& data = config.data;
  TSR_CHECK(data.documents || data.document_end == DataSection{}.document_end,
            "data.document_end=", data.document_end, " needs data.documents=true; leave one out");
}

std::string divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return join(divisors, ", ");
}

void check_pipeline(const TrainConfig& config) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.pp > 1) {
    TSR_CHECK(
        config.optim.accumulate == 1, "optim.accumulate=", config.optim.accumulate,
        " with a pipeline; its micro-batches accumulate gradients: raise --microbatches instead");
    return;
  }
  const ParallelSection defaults;
  const auto needs_pipeline = [](bool asked, std::string_view flag, const auto& value) {
    TSR_CHECK(!asked, flag, " ", value, " needs a pipeline; give --pp as well, or leave it out");
  };
  needs_pipeline(parallel.schedule != defaults.schedule, "--schedule", parallel.schedule);
  needs_pipeline(parallel.microbatches != 1, "--microbatches", parallel.microbatches);
  const bool records = parallel.cp > 1 || (parallel.dp > 1 && parallel.dp_type != "ddp");
  TSR_CHECK(
      config.run.record_every == 0 || records, "run.record_every=", config.run.record_every,
      " needs a pipeline, shards or context parallelism; give --pp, --dp-type fsdp or --cp as "
      "well, or leave it out");
}

void check_experts(const ParallelSection& parallel, const LlamaConfig& shape) {
  if (parallel.ep * parallel.etp == 1) return;
  TSR_CHECK(
      shape.num_sparse_layers() > 0, "--ep ", parallel.ep, " and --etp ", parallel.etp,
      " divide experts, but the model has none; leave them out, or choose a model with experts, "
      "e.g. --preset tiny-moe");
  TSR_CHECK(shape.num_experts % parallel.ep == 0, "--ep ", parallel.ep, " does not divide ",
            shape.num_experts, " experts; choose from ", divisors_of(shape.num_experts));
  TSR_CHECK(parallel.etp <= shape.expert_size(), "--etp ", parallel.etp,
            " is more than the width of an expert, ", shape.expert_size(), "; choose less");
}

void check_routers(const TrainSection& train, const LlamaConfig& shape) {
  const double factor = train.expert_capacity_factor;
  const TrainSection usual;
  const auto check_needs = [&](bool is_usual, const char* key, const auto& value) {
    TSR_CHECK(is_usual || shape.num_sparse_layers() > 0, "train.", key, "=", value,
              " is for models with experts, but this one has none; leave it out, or choose such a "
              "model, e.g. --preset tiny-moe");
  };
  check_needs(factor == usual.expert_capacity_factor, "expert_capacity_factor", factor);
  check_needs(train.balancing == usual.balancing, "balancing", train.balancing);
  check_needs(train.z_loss_coef == usual.z_loss_coef, "z_loss_coef", train.z_loss_coef);
  TSR_CHECK(factor > 0 || train.token_drop_policy == usual.token_drop_policy,
            "train.token_drop_policy=", train.token_drop_policy,
            " needs train.expert_capacity_factor above 0, e.g. 1.25; give both, or leave it out");
}

void check_fp8(const TrainConfig& config) {
  const TrainSection& train = config.train;
  const TrainSection usual;
  if (train.fp8 == usual.fp8) {
    const bool is_usual = train.fp8_skip_first == usual.fp8_skip_first &&
                          train.fp8_skip_last == usual.fp8_skip_last &&
                          train.fp8_head == usual.fp8_head;
    TSR_CHECK(is_usual,
              "train.fp8_skip_first, fp8_skip_last and fp8_head need products in float8; give "
              "--fp8 rowwise as well, or leave them out");
    return;
  }
  const std::string& compute = config.parallel.compute_dtype;
  const std::string& dtype = compute == "same" ? train.dtype : compute;
  TSR_CHECK(dtype == "bf16", "--fp8 ", train.fp8, " is for computing in bf16, but this is ", dtype,
            "; give --dtype bf16 as well, or leave it out");
}

void check_graphs(const TrainConfig& config) {
  if (!config.train.cuda_graphs) return;
  TSR_CHECK(config.train.device == "cuda",
            "--cuda-graphs needs a GPU; give --device cuda as well, or leave it out");
  TSR_CHECK(config.parallel.nproc == 1, "--cuda-graphs is for one rank, but --nproc is ",
            config.parallel.nproc, "; give --nproc 1, or leave it out");
  TSR_CHECK(config.parallel.recompute == "none", "--cuda-graphs cannot record --recompute ",
            config.parallel.recompute, "; leave one of them out");
  TSR_CHECK(
      !config.data.documents,
      "--cuda-graphs needs steps of one form, but documents end elsewhere in each batch; leave it "
      "out, or set data.documents=false");
}

void check_queue(const TrainSection& train) {
  TSR_CHECK(train.sync_every == 1 || train.device == "cuda", "--sync-every ", train.sync_every,
            " queues steps on a GPU, but the device is ", train.device,
            "; give --device cuda as well, or leave it out");
}

// A model from a folder has only model.path.
bool is_meant(const ConfigField& field, const ModelSection& model) {
  return field.section != "model" || (field.key == "path") == !model.path.empty();
}

}  // namespace

ParallelDims dims_of(const ParallelSection& parallel) {
  ParallelDims dims{.pp = parallel.pp,
                    .cp = parallel.cp,
                    .tp = parallel.tp,
                    .ep = parallel.ep,
                    .etp = parallel.etp};
  set_data_parallel(
      dims, {.dp = parallel.dp, .type = parallel.dp_type, .dp_replicate = parallel.dp_replicate});
  return dims;
}

ContextParallelOptions context_of(const ParallelSection& parallel) {
  ContextParallelOptions options{.type = parallel.cp_type,
                                 .layout = parallel.cp_layout,
                                 .head_stride = parallel.cp_head_stride};
  for (const double size : parallel.cp_sizes) {
    TSR_CHECK(size >= 1 && size <= 65536 && size == std::floor(size), "parallel.cp_sizes has ",
              size, "; give whole numbers from 1 to 65536");
    options.sizes.push_back(static_cast<int64_t>(size));
  }
  return options;
}

Span parse_steps(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = to_integer(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : to_integer(text.substr(dash + 1));
  TSR_CHECK(first && last && 0 <= *first && *first <= *last && *last < 1'000'000'000'000,
            "run.trace_steps='", text,
            "' names no steps; give the first and the last one, e.g. 10-12, or one step");
  return {*first, *last + 1};
}

void check_shape(const TrainConfig& config, const LlamaConfig& shape) {
  const ParallelSection& parallel = config.parallel;
  split_heads(shape.num_attention_heads, shape.num_key_value_heads, parallel.tp, /*rank=*/0);
  check_context_parallel(context_of(parallel), {.cp = parallel.cp,
                                                .sequence = config.data.seq,
                                                .heads = shape.num_attention_heads,
                                                .kv_heads = shape.num_key_value_heads,
                                                .tp = parallel.tp});
  check_experts(parallel, shape);
  check_routers(config.train, shape);
  const int64_t skipped = config.train.fp8_skip_first + config.train.fp8_skip_last;
  TSR_CHECK(skipped <= shape.num_hidden_layers,
            "train.fp8_skip_first=", config.train.fp8_skip_first,
            " and train.fp8_skip_last=", config.train.fp8_skip_last, " are more than the ",
            shape.num_hidden_layers, " blocks of the model; choose less");
}

std::string token_cache(const TrainConfig& config) {
  if (!config.data.cache.empty()) return config.data.cache;
  if (config.run.dir.empty()) return "runs/tokens";
  // Of "a/run/", too, the folder is a/.
  const std::filesystem::path run = (std::filesystem::path(config.run.dir) / "").parent_path();
  return run.parent_path() / "tokens";
}

void check(const TrainConfig& config) {
  if (config.model.path.empty()) check(config.model.shape);
  check_data(config.data);
  check_optim(config.optim);
  check_average(config);
  check_rollback(config);
  if (!config.run.trace_steps.empty()) parse_steps(config.run.trace_steps);
  TSR_CHECK(config.optim.accumulate <= config.data.batch,
            "optim.accumulate=", config.optim.accumulate,
            " is more than data.batch=", config.data.batch, "; a slice needs at least one row");
  TSR_CHECK(config.train.validate_every == 0 || config.data.validation_share > 0,
            "train.validate_every=", config.train.validate_every,
            " needs data.validation_share above 0; set one of them");
  check_fp8(config);
  check_graphs(config);
  check_queue(config.train);
  check_context(config.parallel);
  check_documents(config);
  if (config.model.path.empty()) check_shape(config, config.model.shape);
  check_ranks(config.parallel);
  check_sharding(config.parallel);
  check_tensor(config);
  check_pipeline(config);
  TSR_CHECK(config.data.batch >= config.parallel.dp * config.parallel.microbatches,
            "data.batch=", config.data.batch, " is too small for ", config.parallel.dp, " × ",
            config.parallel.microbatches,
            " (--dp × --microbatches) micro-batches of at least one row");
  TSR_CHECK(config.run.sample == 0 || config.run.save, "--sample ", config.run.sample,
            " needs the weights that the run saves; give --run.save=true as well, or --no-sample");
  TSR_CHECK(!config.run.overwrite || !config.run.resume,
            "--overwrite and --resume contradict each other; leave one out");
  TSR_CHECK(!config.run.resume_anyway || config.run.resume,
            "--resume-anyway needs --resume; give both, or leave it out");
}

TrainConfig with_fewer_replicas(TrainConfig config, int64_t ranks) {
  ParallelSection& parallel = config.parallel;
  const int64_t full = parallel.dp;
  const int64_t others = parallel.nproc / full;
  TSR_CHECK(ranks < parallel.nproc && ranks % others == 0, "the run has ", ranks, " of ",
            parallel.nproc, " ranks left, which is not a multiple of tp·cp·pp = ", others,
            "; give --min-nodes so that whole replicas are left");
  parallel.nproc = ranks;
  parallel.dp = ranks / others;
  const auto scaled = [&](int64_t count) { return (count * full + parallel.dp - 1) / parallel.dp; };
  (parallel.pp > 1 ? parallel.microbatches : config.optim.accumulate) =
      scaled(parallel.pp > 1 ? parallel.microbatches : config.optim.accumulate);
  if (parallel.dp_replicate > 1) {
    const int64_t shards = full / parallel.dp_replicate;
    TSR_CHECK(parallel.dp % shards == 0, "the run has ", parallel.dp, " of ", full,
              " replicas left, which cannot hold the ", shards, " shards of --dp-replicate ",
              parallel.dp_replicate, "; give --min-nodes so that whole groups of shards are left");
    parallel.dp_replicate = parallel.dp / shards;
    if (parallel.dp_replicate == 1 && parallel.dp_type == "hsdp") parallel.dp_type = "fsdp";
  }
  if (parallel.dp == 1) {  // Nothing is left to shard.
    const ParallelSection defaults;
    parallel.dp_type = defaults.dp_type;
    parallel.reshard = defaults.reshard;
    parallel.reduce = defaults.reduce;
    parallel.offload = defaults.offload;
    if (parallel.pp == 1) config.run.record_every = 0;
  }
  check(config);
  return config;
}

std::string to_toml(const TrainConfig& config) {
  std::string text;
  std::string_view section;
  for (const ConfigField& field : config_fields()) {
    if (field.section != section)
      text += concat(section.empty() ? "" : "\n", "[", field.section, "]\n");
    section = field.section;
    if (!is_meant(field, config.model)) continue;
    text += concat(field.key, " = ", to_toml(value_of(field, config)), "  # ", field.help, "\n");
  }
  return text;
}

}  // namespace tessera
