#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/base/export.h"

/// NeMo AutoModel's strategy configurations, with its names and defaults; nemo.h maps them to
/// groups. An empty optional is its None.
namespace tessera {
namespace nemo TSR_API {

enum class Dtype { kFloat64, kFloat32, kFloat16, kBFloat16 };

enum class ActivationCheckpointing { kOff, kFull, kSelective };

/// NeMo's policy: dtypes of parameters, reductions and outputs.
struct MixedPrecisionPolicy {
  std::optional<Dtype> param_dtype = Dtype::kBFloat16;
  std::optional<Dtype> reduce_dtype = Dtype::kFloat32;
  std::optional<Dtype> output_dtype = std::nullopt;
  bool cast_forward_inputs = false;
  friend bool operator==(const MixedPrecisionPolicy&, const MixedPrecisionPolicy&) = default;
};

/// NeMo's policy: parameters and optimizer state rest in host memory.
struct CPUOffloadPolicy {
  bool pin_memory = true;
  friend bool operator==(const CPUOffloadPolicy&, const CPUOffloadPolicy&) = default;
};

/// NeMo's configuration: video frames split over ranks.
struct FrameShardingConfig {
  bool enabled = false;
  std::vector<std::string> mesh_dims = {"cp"};
  int64_t min_tokens = 2048;
  int64_t min_frames = 32;
  int64_t min_local_patch_rows = 96;
  std::optional<int64_t> cost_alpha = std::nullopt;  // Default: "auto".
  friend bool operator==(const FrameShardingConfig&, const FrameShardingConfig&) = default;
};

/// NeMo's configuration of the vision part.
struct MultimodalVisionConfig {
  FrameShardingConfig frame_sharding = {};
  friend bool operator==(const MultimodalVisionConfig&, const MultimodalVisionConfig&) = default;
};

/// NeMo's configuration of models with several inputs.
struct MultimodalDistributedConfig {
  std::string frozen_sharding = "root";  // root, per_layer or replicate.
  MultimodalVisionConfig vision = {};
  friend bool operator==(const MultimodalDistributedConfig&,
                         const MultimodalDistributedConfig&) = default;
};

/// NeMo's configuration of FSDP2.
struct FSDP2Config {
  bool sequence_parallel = false;
  std::optional<std::string> tp_plan = std::nullopt;
  bool patch_is_packed_sequence = false;
  MixedPrecisionPolicy mp_policy = {};
  std::optional<CPUOffloadPolicy> offload_policy = std::nullopt;
  std::optional<Dtype> autocast_dtype = std::nullopt;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  std::vector<std::string> activation_checkpointing_scope = {"all"};
  bool defer_fsdp_grad_sync = true;
  std::optional<bool> reshard_after_forward = std::nullopt;
  bool enable_async_tensor_parallel = false;
  bool enable_compile = false;
  bool enable_fsdp2_prefetch = false;
  int64_t fsdp2_backward_prefetch_depth = 2;
  int64_t fsdp2_forward_prefetch_depth = 1;
  MultimodalDistributedConfig multimodal = {};
  std::string backend = "nccl";
  friend bool operator==(const FSDP2Config&, const FSDP2Config&) = default;
};

/// NeMo's configuration of Megatron's FSDP.
struct MegatronFSDPConfig {
  std::optional<std::vector<std::string>> megatron_fsdp_unit_modules = std::nullopt;
  int64_t zero_dp_strategy = 3;
  bool init_fsdp_with_meta_device = false;
  bool grad_reduce_in_fp32 = false;
  bool preserve_fp32_weights = false;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  bool check_for_nan_in_grad = true;
  bool report_nan_in_param_grad = false;
  bool average_in_collective = false;
  bool disable_bucketing = false;
  bool calculate_per_token_loss = false;
  bool keep_fp8_transpose_cache = false;
  bool nccl_ub = false;
  bool fsdp_double_buffer = false;
  bool activation_checkpointing = false;
  std::string backend = "nccl";
  friend bool operator==(const MegatronFSDPConfig&, const MegatronFSDPConfig&) = default;
};

/// NeMo's configuration of DDP.
struct DDPConfig {
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  std::vector<std::string> activation_checkpointing_scope = {"all"};
  bool broadcast_buffers = false;
  bool find_unused_parameters = false;
  bool static_graph = false;
  std::optional<double> bucket_cap_mb = std::nullopt;
  bool gradient_as_bucket_view = false;
  std::optional<Dtype> autocast_dtype = std::nullopt;
  std::string backend = "nccl";
  friend bool operator==(const DDPConfig&, const DDPConfig&) = default;
};

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
