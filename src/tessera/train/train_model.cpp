#include "tessera/train/train_model.h"

#include <ATen/Context.h>

#include <memory>
#include <optional>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/checkpoint/load.h"
#include "tessera/comm/collectives.h"
#include "tessera/format/weight_files.h"
#include "tessera/kernel/fp8.h"
#include "tessera/layer/fp8.h"
#include "tessera/model/llama.h"
#include "tessera/schedule/choose.h"
#include "tessera/train/compose.h"
#include "tessera/train/gather.h"

namespace tessera {
namespace {

at::ScalarType dtype_of(const std::string& name) {
  if (name == "bf16") return at::kBFloat16;
  if (name == "fp16") return at::kHalf;
  return name == "fp64" ? at::kDouble : at::kFloat;
}

// "same" is that of something else.
std::optional<at::ScalarType> other_dtype(const std::string& name) {
  return name == "same" ? std::nullopt : std::optional(dtype_of(name));
}

// `own` is the device of this process if it may use a GPU.
at::Device device_of(const std::string& name, at::Device own) {
  TSR_CHECK(name == "cpu" || !own.is_cpu(), "device '", name,
            "' is not available in this build or on this machine; use cpu");
  return name == "cpu" ? at::kCPU : own;
}

Reshard reshard_of(const ParallelSection& parallel) {
  if (parallel.dp_type == "zero1") return Reshard::kKeep;
  if (parallel.reshard == "smaller") return Reshard::kToSmaller;
  if (parallel.reshard == "never") return Reshard::kNever;
  return parallel.reshard == "always" ? Reshard::kAlways : Reshard::kAllButLast;
}

DdpOptions ddp_of(const ParallelSection& parallel) {
  return {.reduce_dtype = other_dtype(parallel.reduce_dtype)};
}

FsdpOptions fsdp_of(const ParallelSection& parallel) {
  return {.reshard = reshard_of(parallel),
          .smaller = parallel.reshard_size,
          .reduce_each = parallel.reduce == "each",
          .compute_dtype = other_dtype(parallel.compute_dtype),
          .reduce_dtype = other_dtype(parallel.reduce_dtype),
          .offload = parallel.offload};
}

Dispatch dispatch_of(const ParallelSection& parallel) {
  return parallel.dispatch == "all_gather" ? Dispatch::kAllGather : Dispatch::kAllToAll;
}

CapacityOptions capacity_of(const TrainSection& train) {
  return {
      .factor = train.expert_capacity_factor,
      .policy = train.token_drop_policy == "position" ? DropPolicy::kPosition : DropPolicy::kProbs};
}

BalanceKind balancing_of(const TrainSection& train) {
  if (train.balancing == "model") return BalanceKind::kModel;
  return train.balancing == "layer" ? BalanceKind::kLayer : BalanceKind::kSequence;
}

Recompute recompute_of(const ParallelSection& parallel) {
  if (parallel.recompute == "none") return Recompute::kNone;
  return parallel.recompute == "full" ? Recompute::kFull : Recompute::kSelective;
}

Fp8 fp8_of(const TrainSection& train) {
  if (train.fp8 == "none") return Fp8::kNone;
  return train.fp8 == "rowwise" ? Fp8::kRowwise : Fp8::kTensorwise;
}

Model with_fp8_of(const TrainSection& train, Model model) {
  const Fp8 fp8 = fp8_of(train);
  if (fp8 == Fp8::kNone) return model;
  const auto [first, last] = model.layers;
  if (train.fp8_head) model = with_fp8(std::move(model), fp8, {last, model.num_units});
  return with_fp8(std::move(model), fp8,
                  {first + train.fp8_skip_first, last - train.fp8_skip_last});
}

// Sets values from a checkpoint, from files, or initial ones.
Model model_of(const TrainConfig& config, const LlamaConfig& shape, const LlamaOptions& options,
               const Checkpoint* checkpoint, Targets targets) {
  Model model = with_fp8_of(config.train, llama_model(shape, options));
  const bool all_count = targets == Targets::kAllCount && !config.data.documents;
  if (all_count) model.ignored_target.reset();
  if (model.balance) {
    model.balance->kind = balancing_of(config.train);
    model.balance->z_coefficient = config.train.z_loss_coef;
  }
  if (checkpoint != nullptr) {
    check_model(*checkpoint, Llama(shape).named_parameters());
    model.fill = [=](const Parameters& parameters) { load_parameters(*checkpoint, parameters); };
  } else if (config.model.path.empty()) {
    const auto seed = static_cast<uint64_t>(config.train.seed);
    model.fill = [=](const Parameters& parameters) { fill_llama(parameters, shape, seed); };
  } else {
    const auto files = std::make_shared<WeightFiles>(config.model.path);
    model.fill = [=](const Parameters& parameters) { fill_llama(parameters, shape, *files); };
  }
  return model;
}

void record_into(const std::string& run, int64_t every, Engine& engine) {
  engine.record(
      every,
      {.pipeline = [run](const PipelineRecord& record) { write_pipeline_record(run, record); },
       .units = [run](const UnitRecord& record) { write_unit_record(run, record); }});
}

}  // namespace

void check_device(const std::string& name) {
  // Only a run on GPUs needs to start CUDA.
  if (name != "cpu") device_of(name, at::hasCUDA() ? at::kCUDA : at::kCPU);
}

void check_device(const TrainSection& train) {
  check_device(train.device);
  if (train.fp8 != "none" && train.device != "cpu") check_fp8(at::Device(at::kCUDA, 0));
}

int64_t TrainModel::parameter_count() const {
  return Llama(shape).parameter_count();
}

void TrainModel::save(const std::string& folder) const {
  const Group& group = engine.plan().group("norm");
  if (group.global_rank(GroupRank{0}) != GlobalRank{0}) return;  // Another replica writes.
  const Llama whole(shape, {.dtype = dtype});
  gather_parameters(
      engine.parameters(), whole.named_parameters(), group,
      [&](const ParameterSource& source) { whole.save(folder, Llama::kShardBytes, source); });
}

LlamaConfig shape_of(const ModelSection& model) {
  return model.path.empty() ? model.shape : read_llama_config(model.path);
}

Schedule schedule_of(const TrainConfig& config) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.pp == 1) return one_rank(config.optim.accumulate);
  return choose_schedule(
      {.word = parallel.schedule, .pp = parallel.pp, .microbatches = parallel.microbatches});
}

TrainModel make_model(const TrainConfig& config, const WorldHandle& world,
                      const Checkpoint* checkpoint, Targets targets) {
  const LlamaConfig shape = shape_of(config.model);
  const LlamaOptions options{.dtype = dtype_of(config.train.dtype),
                             .device = device_of(config.train.device, world.device())};
  if (config.train.fp8 != "none") {  // The GPUs of the ranks may differ.
    check_together(world, "the rule that --fp8 needs GPUs with float8",
                   [&] { check_fp8(options.device); });
  }
  const ContextParallelOptions context = context_of(config.parallel);
  const RealizedPlan plan =
      realize(train_plan(world.size(), dims_of(config.parallel), context.sizes), world);
  TrainModel made{.engine = compose(model_of(config, shape, options, checkpoint, targets), plan,
                                    {.batch = config.data.batch,
                                     .schedule = schedule_of(config),
                                     .device = options.device,
                                     .sequence = config.parallel.sp,
                                     .tensor_async = config.parallel.tp_async,
                                     .dispatch = dispatch_of(config.parallel),
                                     .capacity = capacity_of(config.train),
                                     .recompute = recompute_of(config.parallel),
                                     .context = context,
                                     .graphs = config.train.cuda_graphs,
                                     .ddp = ddp_of(config.parallel),
                                     .fsdp = fsdp_of(config.parallel)}),
                  .shape = shape,
                  .dtype = options.dtype};
  record_into(config.run.dir, config.run.record_every, made.engine);
  return made;
}

}  // namespace tessera
