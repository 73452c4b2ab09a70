#include "tessera/dialect/nemo/training.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <variant>

#include "tessera/base/check.h"
#include "tessera/dialect/internal/setup.h"

namespace tessera::nemo {

using namespace dialect::detail;

namespace {

constexpr const char* kNoAutocast =
    "autocast is not available; build the model in that dtype, or set mp_policy.param_dtype of "
    "fsdp2";
constexpr const char* kNoCompiler = "it needs PyTorch's compiler, which LibTorch lacks";

std::optional<at::ScalarType> dtype_of(const std::optional<Dtype>& dtype) {
  if (!dtype) return std::nullopt;
  switch (*dtype) {
    case Dtype::kFloat64:
      return at::kDouble;
    case Dtype::kFloat32:
      return at::kFloat;
    case Dtype::kFloat16:
      return at::kHalf;
    case Dtype::kBFloat16:
      return at::kBFloat16;
  }
  TSR_ASSERT(false, "unknown dtype");
}

Recompute recompute_of(ActivationCheckpointing kind) {
  switch (kind) {
    case ActivationCheckpointing::kOff:
      return Recompute::kNone;
    case ActivationCheckpointing::kSelective:
      return Recompute::kSelective;
    case ActivationCheckpointing::kFull:
      return Recompute::kFull;
  }
  TSR_ASSERT(false, "unknown activation checkpointing");
}

Recompute recompute_of(ActivationCheckpointing kind, const std::vector<std::string>& scope) {
  const bool is_on = kind != ActivationCheckpointing::kOff;
  check_unset(is_on && scope != std::vector<std::string>{"all"}, "activation_checkpointing_scope",
              "all units of a model are recomputed; leave it at all");
  return recompute_of(kind);
}

Reshard reshard_of(const std::optional<bool>& after_forward) {
  if (!after_forward) return Reshard::kAllButLast;
  return *after_forward ? Reshard::kAlways : Reshard::kNever;
}

FsdpOptions options_of(const FSDP2Config& config) {
  return {.reshard = reshard_of(config.reshard_after_forward),
          .reduce_each = !config.defer_fsdp_grad_sync,
          .compute_dtype = dtype_of(config.mp_policy.param_dtype),
          .reduce_dtype = dtype_of(config.mp_policy.reduce_dtype),
          .offload = config.offload_policy.has_value()};
}

void check_supported(const FSDP2Config& config) {
  check_unset(config.mp_policy.output_dtype.has_value(), "mp_policy.output_dtype",
              "the loss gets the model's output; cast it there");
  check_unset(config.mp_policy.cast_forward_inputs, "mp_policy.cast_forward_inputs",
              "units get their inputs unchanged; cast the batch, or cast in the unit");
  check_unset(config.autocast_dtype.has_value(), "autocast_dtype", kNoAutocast);
  check_unset(config.enable_async_tensor_parallel, "enable_async_tensor_parallel", kNoCompiler);
  check_unset(config.enable_compile, "enable_compile", kNoCompiler);
  check_unset(config.multimodal.vision.frame_sharding.enabled, "frame_sharding",
              "there are no vision models; leave it off");
}

void apply(const FSDP2Config& config, TrainingSetup& setup) {
  check_supported(config);
  setup.options.fsdp = options_of(config);
  setup.options.sequence = config.sequence_parallel;
  setup.options.recompute =
      recompute_of(config.activation_checkpointing, config.activation_checkpointing_scope);
}

// 0 replicates; 1 shards the optimizer's state, 2 the gradients, too, 3 the parameters, too.
const char* type_of(int64_t strategy) {
  TSR_CHECK(strategy >= 0 && strategy <= 3, "zero_dp_strategy is ", strategy,
            "; choose 0 (nothing is sharded), 1 (optimizer state), 2 (gradients, too) or 3 "
            "(parameters, too)");
  if (strategy == 0) return "ddp";
  return strategy == 3 ? "fsdp" : "zero1";
}

void check_supported(const MegatronFSDPConfig& config) {
  check_unset(config.calculate_per_token_loss, "calculate_per_token_loss",
              "the loss is the mean over the rows of a batch; leave it off");
  check_unset(config.keep_fp8_transpose_cache, "keep_fp8_transpose_cache",
              "nothing here computes in fp8; leave it off");
}

void apply(const MegatronFSDPConfig& config, TrainingSetup& setup) {
  check_supported(config);
  if (config.grad_reduce_in_fp32) {
    setup.options.fsdp.reduce_dtype = at::kFloat;
    setup.options.ddp.reduce_dtype = at::kFloat;
  }
  // Whole gradients then exist for one unit at a time.
  setup.options.fsdp.reduce_each = config.zero_dp_strategy >= 2;
  if (config.disable_bucketing) {
    setup.options.ddp.bucket_bytes = std::numeric_limits<int64_t>::max();
  }
  setup.options.recompute = config.activation_checkpointing ? Recompute::kFull : Recompute::kNone;
}

int64_t bytes_of(double mebibytes) {
  TSR_CHECK(std::isfinite(mebibytes) && mebibytes > 0 && mebibytes < 1e6, "bucket_cap_mb is ",
            mebibytes, ", but must be above 0 and below 1,000,000");
  return std::max<int64_t>(1, std::llround(mebibytes * 1024 * 1024));
}

void apply(const DDPConfig& config, TrainingSetup& setup) {
  check_unset(config.broadcast_buffers, "broadcast_buffers",
              "rank 0's buffers are copied once, at the start; leave it off");
  check_unset(config.autocast_dtype.has_value(), "autocast_dtype", kNoAutocast);
  if (config.bucket_cap_mb) setup.options.ddp.bucket_bytes = bytes_of(*config.bucket_cap_mb);
  setup.options.recompute =
      recompute_of(config.activation_checkpointing, config.activation_checkpointing_scope);
}

std::string type_of(const DistributedConfig& config, int64_t replicas) {
  if (std::holds_alternative<DDPConfig>(config)) return "ddp";
  if (const auto* const megatron = std::get_if<MegatronFSDPConfig>(&config)) {
    return type_of(megatron->zero_dp_strategy);
  }
  return replicas > 1 ? "hsdp" : "fsdp";
}

}  // namespace

TrainingSetup training_setup(int64_t world, const DistributedConfig& config,
                             const ParallelismSizes& sizes) {
  const Layout layout = nemo_plan(world, config, sizes).layout("world");
  const int64_t replicas = size_of(layout, "dp_replicate");
  const ParallelDims dims{
      .pp = sizes.pp_size, .cp = sizes.cp_size, .tp = sizes.tp_size, .ep = sizes.ep_size};
  TrainingSetup setup = setup_of(dims, {.dp = world / dims.pp / dims.cp / dims.tp,
                                        .type = type_of(config, replicas),
                                        .dp_replicate = replicas});
  std::visit([&](const auto& strategy) { apply(strategy, setup); }, config);
  return setup;
}

}  // namespace tessera::nemo
