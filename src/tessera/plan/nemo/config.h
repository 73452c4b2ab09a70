#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/base/export.h"

/// NeMo AutoModel's strategy configurations, with its names and defaults; nemo_plan() maps them to
/// groups. An empty optional is its None. docs/dialects/nemo.md says which fields training_setup()
/// uses, ignores or refuses.
namespace tessera {
namespace nemo TSR_API {

/// In JSON by PyTorch's name, e.g. "bfloat16".
enum class Dtype { kFloat64, kFloat32, kFloat16, kBFloat16 };

/// What the backward pass recomputes: nothing, all of each layer, or its cheap operations. In JSON
/// false, true or "full", and "selective".
enum class ActivationCheckpointing { kOff, kFull, kSelective };

/// NeMo's policy: dtypes of parameters, reductions and outputs.
struct MixedPrecisionPolicy {
  /// Of gathered parameters and of compute; none: as stored.
  std::optional<Dtype> param_dtype = Dtype::kBFloat16;
  /// In which gradients are summed; none: their dtype.
  std::optional<Dtype> reduce_dtype = Dtype::kFloat32;
  std::optional<Dtype> output_dtype = std::nullopt;  // Of a unit's outputs; none: unchanged.
  bool cast_forward_inputs = false;  // Whether units cast their inputs to param_dtype.
  friend bool operator==(const MixedPrecisionPolicy&, const MixedPrecisionPolicy&) = default;
};

/// NeMo's policy: parameters and optimizer state rest in host memory.
struct CPUOffloadPolicy {
  bool pin_memory = true;  // Page-locked, for faster copies to the device.
  friend bool operator==(const CPUOffloadPolicy&, const CPUOffloadPolicy&) = default;
};

/// NeMo's configuration: video frames split over ranks.
struct FrameShardingConfig {
  bool enabled = false;                         // Off: every cp rank computes all frames.
  std::vector<std::string> mesh_dims = {"cp"};  // Axes over which frames are split; only cp.
  int64_t min_tokens = 2048;                    // Visual tokens from which frames are split.
  int64_t min_frames = 32;            // Frames from which they are split, however few tokens.
  int64_t min_local_patch_rows = 96;  // Least patch rows per rank.
  std::optional<int64_t> cost_alpha = std::nullopt;  // Default: "auto".
  friend bool operator==(const FrameShardingConfig&, const FrameShardingConfig&) = default;
};

/// NeMo's configuration of the vision part.
struct MultimodalVisionConfig {
  FrameShardingConfig frame_sharding = {};  // Of the vision encoder.
  friend bool operator==(const MultimodalVisionConfig&, const MultimodalVisionConfig&) = default;
};

/// NeMo's configuration of models with several inputs.
struct MultimodalDistributedConfig {
  std::string frozen_sharding = "root";  // root, per_layer or replicate.
  MultimodalVisionConfig vision = {};    // Of vision modules only.
  friend bool operator==(const MultimodalDistributedConfig&,
                         const MultimodalDistributedConfig&) = default;
};

/// NeMo's configuration of FSDP2.
struct FSDP2Config {
  bool sequence_parallel = false;  // With tp: splits activations along the sequence, too.
  /// Name of a plan of tensor parallelism; none: the one for the model's type.
  std::optional<std::string> tp_plan = std::nullopt;
  /// Lets Hugging Face models assume that sequences are not packed.
  bool patch_is_packed_sequence = false;
  MixedPrecisionPolicy mp_policy = {};  // Default: bfloat16 compute, float32 sums.
  /// None: parameters and optimizer state stay on the device.
  std::optional<CPUOffloadPolicy> offload_policy = std::nullopt;
  std::optional<Dtype> autocast_dtype = std::nullopt;  // Of the forward pass; none: no autocast.
  /// How much the backward pass recomputes.
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  /// Modules to recompute: all, or some of language, vision, audio and multimodal.
  std::vector<std::string> activation_checkpointing_scope = {"all"};
  bool defer_fsdp_grad_sync = true;  // Reduces gradients once per step, not per micro-batch.
  /// Frees gathered parameters after the forward pass; default: in all units but the last.
  std::optional<bool> reshard_after_forward = std::nullopt;
  /// Overlaps the collectives of tensor parallelism with compute.
  bool enable_async_tensor_parallel = false;
  bool enable_compile = false;                  // torch.compile of each layer.
  bool enable_fsdp2_prefetch = false;           // Gathers units ahead, by the depths below.
  int64_t fsdp2_backward_prefetch_depth = 2;    // Units to gather ahead.
  int64_t fsdp2_forward_prefetch_depth = 1;     // Units to gather ahead.
  MultimodalDistributedConfig multimodal = {};  // Of vision and audio modules.
  std::string backend = "nccl";                 // gloo: Gloo groups. nccl: the world's back end.
  friend bool operator==(const FSDP2Config&, const FSDP2Config&) = default;
};

/// NeMo's configuration of Megatron's FSDP.
struct MegatronFSDPConfig {
  /// Classes whose modules are units; none: the blocks that the model lists.
  std::optional<std::vector<std::string>> megatron_fsdp_unit_modules = std::nullopt;
  /// What is sharded: 0 nothing, 1 optimizer state, 2 also gradients, 3 also parameters.
  int64_t zero_dp_strategy = 3;
  bool init_fsdp_with_meta_device = false;  // Allocates shards only, never the whole model.
  bool grad_reduce_in_fp32 = false;         // Sums gradients in float32; otherwise in their dtype.
  bool preserve_fp32_weights = false;       // Keeps float32 weights for the optimizer.
  bool overlap_grad_reduce = true;          // With the backward pass.
  bool overlap_param_gather = true;         // With compute.
  bool check_for_nan_in_grad = true;        // No effect in NeMo 0.7.0.
  bool report_nan_in_param_grad = false;    // Checks the gradient of each parameter; slow.
  bool average_in_collective = false;       // Instead of a sum and a separate division.
  bool disable_bucketing = false;           // One bucket for all gradients.
  bool calculate_per_token_loss = false;    // Mean loss over the tokens of the whole batch.
  bool keep_fp8_transpose_cache = false;    // Faster, but needs more memory.
  bool nccl_ub = false;                     // Registers communication buffers with NCCL.
  bool fsdp_double_buffer = false;          // Two buffers for communication, allocated once.
  bool activation_checkpointing = false;    // true: as ActivationCheckpointing::kFull.
  std::string backend = "nccl";             // gloo: Gloo groups. nccl: the world's back end.
  friend bool operator==(const MegatronFSDPConfig&, const MegatronFSDPConfig&) = default;
};

/// NeMo's configuration of DDP.
struct DDPConfig {
  /// How much the backward pass recomputes.
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  /// Modules to recompute: all, or some of language, vision, audio and multimodal.
  std::vector<std::string> activation_checkpointing_scope = {"all"};
  bool broadcast_buffers = false;       // Rank 0's, before each forward pass.
  bool find_unused_parameters = false;  // For models that do not use all in every step.
  bool static_graph = false;            // Every step uses the same parameters.
  std::optional<double> bucket_cap_mb = std::nullopt;  // In MiB; none: DDP's default.
  bool gradient_as_bucket_view = false;  // Gradients are views of the buckets: no copy.
  std::optional<Dtype> autocast_dtype = std::nullopt;  // Of the forward pass; none: no autocast.
  std::string backend = "nccl";  // gloo: Gloo groups. nccl: the world's back end.
  friend bool operator==(const DDPConfig&, const DDPConfig&) = default;
};

/// One of NeMo's three strategies.
using DistributedConfig = std::variant<FSDP2Config, MegatronFSDPConfig, DDPConfig>;

/// "fsdp2", "megatron_fsdp" or "ddp".
const char* strategy_name(const DistributedConfig& config);
/// The strategy of this name, in upper or lower case, with its defaults; megatron-fsdp and mfsdp
/// are megatron_fsdp.
DistributedConfig strategy_named(std::string_view name);

/// "strategy", then all fields by name.
std::string to_json(const DistributedConfig& config);
/// Parses an object of fields, with "strategy" (default fsdp2); missing fields have their defaults.
/// ConfigError for unknown fields and wrong values.
DistributedConfig config_from_json(std::string_view json);

}  // namespace nemo
}  // namespace tessera
