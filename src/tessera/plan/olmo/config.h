#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tessera/base/export.h"

/// The configuration values of OLMo-core's `distributed.parallel`, with its documented names,
/// fields and defaults. olmo_plan maps them to groups.
namespace tessera {
namespace olmo TSR_API {

/// fsdp shards the model over all data-parallel ranks, hsdp within each replica, ddp not at all.
enum class DataParallelType { fsdp, hsdp, ddp };

/// PyTorch's dtypes, by their names.
enum class DType { float32, bfloat16, float16, float8_e4m3fn, float8_e5m2 };

/// The names of mesh dimensions.
enum class MeshDimName {
  dp,
  dp_replicate,
  dp_shard,
  tp,
  cp,
  pp,
  ep,
  ep_replicate,
  ep_shard,
  dp_ep,
  dp_cp,
};

/// The names of data-parallel mesh dimensions; their text is that of MeshDimName.
enum class DPMeshDimName { replicate, shard };

/// OLMo's schedules: single_1F1B and gpipe have one stage per rank, the others several.
enum class PipelineScheduleType {
  single_1F1B,
  gpipe,
  interleaved_1F1B,
  looped_bfs,
  interleaved_zero_bubble,
  zbv_zero_bubble,
};

/// How stages are placed on ranks: loop begins again at rank 0, v goes back from the last rank.
enum class PipelineSplitStyle { loop, v };

/// How a sequence is divided over context-parallel ranks; see olmo/context_parallel.h.
enum class RingAttentionLoadBalancerType { zig_zag, llama3, ulysses };

/// OLMo's text of a value, e.g. "Interleaved1F1B".
const char* to_string(DataParallelType type);
const char* to_string(DType dtype);
const char* to_string(MeshDimName name);
const char* to_string(DPMeshDimName name);
const char* to_string(PipelineScheduleType schedule);
const char* to_string(PipelineSplitStyle style);
const char* to_string(RingAttentionLoadBalancerType type);

/// The value of a text; ConfigError with the nearest one if there is none.
template <class Enum>
Enum from_string(std::string_view text);

template <class Enum>
  requires std::is_enum_v<Enum> && requires(Enum value) { to_string(value); }
std::ostream& operator<<(std::ostream& out, Enum value) {
  return out << to_string(value);
}

/// Whether a rank has one stage in this schedule.
bool is_single_stage(PipelineScheduleType schedule);
/// Whether a rank has several stages in this schedule.
bool is_multi_stage(PipelineScheduleType schedule);
/// v for zbv_zero_bubble, loop for the others.
PipelineSplitStyle default_style(PipelineScheduleType schedule);

/// The two sizes of HSDP.
struct ReplicateAndShardDegree {
  int64_t num_replicas = 1;  // Replicas of the model.
  int64_t shard_degree = 1;  // Ranks that hold the shards of one replica.

  friend bool operator==(const ReplicateAndShardDegree&, const ReplicateAndShardDegree&) = default;
};

/// OLMo-core's configuration of data parallelism.
struct DataParallelConfig {
  DataParallelType name = DataParallelType::fsdp;  // Required in JSON.
  /// Of gathered parameters and of compute; default: as stored.
  std::optional<DType> param_dtype = std::nullopt;
  DType reduce_dtype = DType::float32;                 // In which gradients are summed.
  std::optional<int64_t> num_replicas = std::nullopt;  // HSDP only.
  std::optional<int64_t> shard_degree = std::nullopt;  // HSDP only.

  /// Infers a degree that is not set from the other one; without both, one replica per node.
  ReplicateAndShardDegree get_replicate_and_shard_degree(int64_t dp_world_size,
                                                         int64_t num_nodes) const;
  /// Whether the result depends on the number of nodes.
  bool needs_num_nodes() const { return !num_replicas && !shard_degree; }

  friend bool operator==(const DataParallelConfig&, const DataParallelConfig&) = default;
};

/// OLMo-core's configuration of tensor parallelism.
struct TensorParallelConfig {
  int64_t degree = 1;         // Ranks that shard each layer.
  bool enable_async = false;  // Overlaps its collectives with compute.

  friend bool operator==(const TensorParallelConfig&, const TensorParallelConfig&) = default;
};

/// OLMo-core's configuration of context parallelism.
struct ContextParallelConfig {
  int64_t degree = 1;  // Ranks that split a sequence.

  friend bool operator==(const ContextParallelConfig&, const ContextParallelConfig&) = default;
};

/// Ring attention.
struct RingContextParallelStyle {
  /// zig_zag or llama3; for ulysses, set TransformerContextParallelConfig::uly.
  RingAttentionLoadBalancerType load_balancer = RingAttentionLoadBalancerType::zig_zag;
  int64_t head_stride = 1;  // Key-value heads per exchange.

  friend bool operator==(const RingContextParallelStyle&,
                         const RingContextParallelStyle&) = default;
};

/// Ulysses: heads instead of positions are split during attention.
struct UlyssesContextParallelStyle {
  friend bool operator==(const UlyssesContextParallelStyle&,
                         const UlyssesContextParallelStyle&) = default;
};

/// Exactly one of `ring` and `uly` must be set.
struct TransformerContextParallelConfig : ContextParallelConfig {
  /// zig_zag or llama3.
  std::optional<RingContextParallelStyle> ring = std::nullopt;
  /// Has no fields: being set selects Ulysses.
  std::optional<UlyssesContextParallelStyle> uly = std::nullopt;

  /// Ring attention; ranks hold two chunks of each document.
  static TransformerContextParallelConfig zig_zag(int64_t degree, int64_t head_stride = 1);
  /// All-gather of keys and values, `head_stride` heads at a time; contiguous pieces.
  static TransformerContextParallelConfig llama3(int64_t degree, int64_t head_stride = 1);
  /// All-to-all of heads; contiguous pieces.
  static TransformerContextParallelConfig ulysses(int64_t degree);

  friend bool operator==(const TransformerContextParallelConfig&,
                         const TransformerContextParallelConfig&) = default;
};

/// OLMo-core's configuration of expert parallelism.
struct ExpertParallelConfig {
  int64_t degree = 1;  // Must equal the shard degree of HSDP, whose ranks hold the experts.

  friend bool operator==(const ExpertParallelConfig&, const ExpertParallelConfig&) = default;
};

/// OLMo-core's configuration of pipelines.
struct PipelineParallelConfig {
  int64_t degree = 1;  // Ranks per pipeline.
  /// Also decides whether a rank has one stage or several.
  PipelineScheduleType schedule = PipelineScheduleType::interleaved_1F1B;
  std::optional<PipelineSplitStyle> style = std::nullopt;  // Default: the schedule's.

  /// `style`, or else the schedule's.
  PipelineSplitStyle infer_style() const;
  /// The pipeline rank that holds the last stage.
  int64_t final_stage_rank() const;
  /// The pipeline ranks in the order in which they finish a batch.
  std::vector<int64_t> rank_completion_order() const;
  /// The stages of a pipeline rank: every degree-th stage (loop), or one on the way down and one on
  /// the way up (v).
  std::vector<int64_t> stage_ids_this_rank(int64_t pp_rank, int64_t num_stages) const;

  friend bool operator==(const PipelineParallelConfig&, const PipelineParallelConfig&) = default;
};

/// OLMo-core's configuration of a transformer's pipeline.
struct TransformerPipelineParallelConfig : PipelineParallelConfig {
  /// The first block of each stage but the first; default: the rule of split_points.h.
  std::optional<std::vector<int64_t>> split_points = std::nullopt;

  /// `split_points`, or else even ones, with 2 stages per rank if the schedule has several.
  /// ConfigError if given ones do not increase from 0 to n_layers.
  std::vector<int64_t> get_split_points(int64_t n_layers) const;

  friend bool operator==(const TransformerPipelineParallelConfig&,
                         const TransformerPipelineParallelConfig&) = default;
};

/// The arguments of build_world_mesh; parallelism that is not given has no mesh dimension.
struct WorldMeshConfig {
  std::optional<DataParallelConfig> dp = std::nullopt;      // Required by all others.
  std::optional<TensorParallelConfig> tp = std::nullopt;    // Not together with ep.
  std::optional<ContextParallelConfig> cp = std::nullopt;   // The degree alone, without a style.
  std::optional<PipelineParallelConfig> pp = std::nullopt;  // Only the degree matters.
  std::optional<ExpertParallelConfig> ep = std::nullopt;    // Needs HSDP; adds no dimension.

  friend bool operator==(const WorldMeshConfig&, const WorldMeshConfig&) = default;
};

}  // namespace olmo
}  // namespace tessera
