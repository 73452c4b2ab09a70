#include "tessera/train/job.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/environment.h"
#include "tessera/base/machine.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tessera/model/llama_units.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/grouped.h"
#include "tessera/optim/sgd.h"
#include "tessera/train/train_model.h"

namespace tessera {
namespace {

std::unique_ptr<Optimizer> make_group(const OptimSection& optim, const Parameters& parameters,
                                      double weight_decay) {
  if (optim.kind == "sgd") {
    const SgdOptions options{.momentum = optim.momentum, .weight_decay = weight_decay};
    return std::make_unique<Sgd>(parameters, options);
  }
  const AdamWOptions options{
      .beta1 = optim.beta1, .beta2 = optim.beta2, .eps = optim.eps, .weight_decay = weight_decay};
  return std::make_unique<AdamW>(parameters, options);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimSection& optim, const Parameters& parameters) {
  if (optim.decay_norms) return make_group(optim, parameters, optim.weight_decay);
  const auto [matrices, others] = split_parameters(parameters, is_matrix);
  std::vector<std::unique_ptr<Optimizer>> groups;
  groups.push_back(make_group(optim, matrices, optim.weight_decay));
  groups.push_back(make_group(optim, others, 0));
  return std::make_unique<Grouped>(std::move(groups));
}

LearningRate learning_rate_of(const OptimSection& optim, int64_t steps) {
  const LearningRateKind kind = parse_learning_rate_kind(optim.schedule);
  const bool falls = kind != LearningRateKind::kConstant;
  const LearningRate rate{.kind = kind,
                          .peak = optim.lr,
                          .final = falls ? optim.final * optim.lr : 0,
                          .warmup = optim.warmup,
                          .steps = steps,
                          .decay = optim.decay};
  check(rate);
  return rate;
}

bool scales_loss(const TrainConfig& config) {
  return config.train.dtype == "fp16";
}

TrainerOptions trainer_options(const TrainConfig& config) {
  const bool skips = scales_loss(config) || config.optim.non_finite == "skip";
  return {.steps = config.train.steps,
          .learning_rate = learning_rate_of(config.optim, config.train.steps),
          .clip = config.optim.clip,
          .validate_every = config.train.validate_every,
          .non_finite = skips ? NonFinite::kSkip : NonFinite::kStop};
}

BatchOptions batch_options(const DataSection& data) {
  return {.batch = data.batch,
          .seq = data.seq,
          .shuffle = data.shuffle,
          .seed = static_cast<uint64_t>(data.seed)};
}

TokenData open_data(const TrainConfig& config) {
  TokenData data({.paths = config.data.paths,
                  .weights = config.data.weights,
                  .kind = parse_token_kind(config.data.kind)});
  data.check_vocabulary(shape_of(config.model).vocab_size);
  return data;
}

// The ranks of a host share its cores.
void set_threads(const TrainConfig& config) {
  int64_t threads = config.train.threads;
  if (threads == 0 && config.parallel.nproc > 1) {
    const int64_t ranks = read_launch_info(process_environment()).local_world_size;
    threads = std::max<int64_t>(1, std::thread::hardware_concurrency() / ranks);
  }
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

World meet(const TrainConfig& config) {
  // On GPUs: NCCL if every rank has its own GPU.
  const bool cpu = config.train.device == "cpu";
  return World::connect({.backend = cpu ? Backend::kGloo : Backend::kAuto});
}

// A signal may reach ranks in different steps; all must stop after the same one.
bool any_of(bool mine, const Group& group) {
  return all_reduce(at::full({1}, mine, at::kInt), group, ReduceOp::kMax).wait().item<bool>();
}

std::string of_first_rank(const std::string& text, const Group& group) {
  const Bytes bytes = broadcast_bytes({text.begin(), text.end()}, GlobalRank{0}, group);
  return {bytes.begin(), bytes.end()};
}

void check_documents(const DataSection& data, const LlamaConfig& shape) {
  TSR_CHECK(!data.documents || data.document_end < shape.vocab_size,
            "data.document_end=", data.document_end, " is outside the vocabulary of ",
            shape.vocab_size, "; choose a token of it");
}

std::optional<int64_t> document_end(const DataSection& data) {
  return data.documents ? std::optional(data.document_end) : std::nullopt;
}

// Without validation, no data is held out.
std::pair<TokenBatches, std::optional<TokenBatches>> make_batches(const TrainConfig& config) {
  const TokenData data = open_data(config);
  BatchOptions options = batch_options(config.data);
  const std::optional<int64_t> end = document_end(config.data);
  if (config.train.validate_every == 0) {
    return {TokenBatches(Batches(data, options), end), std::nullopt};
  }
  const TokenData::Split split = data.split(config.data.validation_share);
  TokenBatches batches(Batches(split.train, options, "training part of the data"), end);
  options.shuffle = false;
  return {std::move(batches),
          TokenBatches(Batches(split.validation, options, "validation part of the data"), end)};
}

}  // namespace

void check_job(const TrainConfig& config) {
  trainer_options(config);
  const LlamaConfig shape = shape_of(config.model);
  check_shape(config, shape);
  check_documents(config.data, shape);
  check_memory(config, shape, machine_memory());
  stage_units(llama_model(shape), schedule_of(config).num_stages());
}

TrainJob make_job(TrainConfig config) {
  const TrainerOptions options = trainer_options(config);
  set_threads(config);
  World world = meet(config);
  config.run.dir = of_first_rank(config.run.dir, world.group());
  auto [batches, validation] = make_batches(config);
  TrainModel model = make_model(config, world);
  std::unique_ptr<Optimizer> optimizer = make_optimizer(config.optim, model.engine.parameters());
  return {std::move(world),
          std::move(batches),
          std::move(validation),
          std::move(model),
          std::move(optimizer),
          options,
          scales_loss(config) ? std::optional<GradScaler>(std::in_place) : std::nullopt,
          config.train.validate_batches,
          config.run.dir};
}

int64_t train(TrainJob& job, TrainerHooks hooks) {
  Engine& engine = job.model.engine;
  if (job.validation) {
    const int64_t count =
        std::min(job.validate_batches, job.validation->batches().batches_per_epoch());
    hooks.validate = [&, count] { return mean_loss(engine, *job.validation, count); };
  }
  if (hooks.should_stop) {
    hooks.should_stop = [&, mine = hooks.should_stop] { return any_of(mine(), job.world.group()); };
  }
  TrainerOptions options = job.options;
  if (job.scaler) options.scaler = &*job.scaler;
  return train(options, engine, job.batches, *job.optimizer, hooks);
}

}  // namespace tessera
