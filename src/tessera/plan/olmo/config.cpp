#include "tessera/plan/olmo/config.h"

#include <algorithm>
#include <array>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/plan/split_points.h"

namespace tessera::olmo {
namespace {

/// The names of an enumeration and of its values, in its order.
template <class Enum>
struct Texts;

template <>
struct Texts<DataParallelType> {
  static constexpr const char* kKind = "data parallel type";
  static constexpr std::array kAll{"fsdp", "hsdp", "ddp"};
};

template <>
struct Texts<DType> {
  static constexpr const char* kKind = "dtype";
  static constexpr std::array kAll{"float32", "bfloat16", "float16", "float8_e4m3fn",
                                   "float8_e5m2"};
};

template <>
struct Texts<MeshDimName> {
  static constexpr const char* kKind = "mesh dimension";
  static constexpr std::array kAll{"dp", "dp_replicate", "dp_shard", "tp",    "cp",   "pp",
                                   "ep", "ep_replicate", "ep_shard", "dp_ep", "dp_cp"};
};

template <>
struct Texts<DPMeshDimName> {
  static constexpr const char* kKind = "data parallel mesh dimension";
  static constexpr std::array kAll{"dp_replicate", "dp_shard"};
};

template <>
struct Texts<PipelineScheduleType> {
  static constexpr const char* kKind = "pipeline schedule";
  static constexpr std::array kAll{
      "1F1B", "GPipe", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble"};
};

template <>
struct Texts<PipelineSplitStyle> {
  static constexpr const char* kKind = "pipeline split style";
  static constexpr std::array kAll{"loop", "v"};
};

template <>
struct Texts<RingAttentionLoadBalancerType> {
  static constexpr const char* kKind = "load balancer";
  static constexpr std::array kAll{"zig_zag", "llama3", "ulysses"};
};

template <class Enum>
const char* text_of(Enum value) {
  const auto index = static_cast<size_t>(value);
  TSR_CHECK(index < Texts<Enum>::kAll.size(), index, " is not a ", Texts<Enum>::kKind,
            "; use the named values");
  return Texts<Enum>::kAll[index];
}

void check_divides(const char* field, int64_t degree, int64_t dp_world_size) {
  TSR_CHECK(degree > 0, "DataParallelConfig.", field, " is ", degree,
            ", but must be at least 1; leave it out to infer it");
  TSR_CHECK(dp_world_size % degree == 0, "DataParallelConfig.", field, " is ", degree,
            ", which does not divide the data parallel world of ", dp_world_size,
            " ranks; choose a divisor of it, or leave it out");
}

}  // namespace

const char* to_string(DataParallelType type) {
  return text_of(type);
}
const char* to_string(DType dtype) {
  return text_of(dtype);
}
const char* to_string(MeshDimName name) {
  return text_of(name);
}
const char* to_string(DPMeshDimName name) {
  return text_of(name);
}
const char* to_string(PipelineScheduleType schedule) {
  return text_of(schedule);
}
const char* to_string(PipelineSplitStyle style) {
  return text_of(style);
}
const char* to_string(RingAttentionLoadBalancerType type) {
  return text_of(type);
}

template <class Enum>
Enum from_string(std::string_view text) {
  const auto& all = Texts<Enum>::kAll;
  const auto at =
      std::ranges::find(all, text, [](const char* one) { return std::string_view(one); });
  if (at != all.end()) return static_cast<Enum>(at - all.begin());
  const std::vector<std::string> known(all.begin(), all.end());
  throw ConfigError(concat("'", text, "' is not a ", Texts<Enum>::kKind, "; choose ",
                           join(known, ", "), did_you_mean(text, known)));
}

template DataParallelType from_string(std::string_view text);
template DType from_string(std::string_view text);
template MeshDimName from_string(std::string_view text);
template DPMeshDimName from_string(std::string_view text);
template PipelineScheduleType from_string(std::string_view text);
template PipelineSplitStyle from_string(std::string_view text);
template RingAttentionLoadBalancerType from_string(std::string_view text);

bool is_single_stage(PipelineScheduleType schedule) {
  return schedule == PipelineScheduleType::single_1F1B || schedule == PipelineScheduleType::gpipe;
}

bool is_multi_stage(PipelineScheduleType schedule) {
  return !is_single_stage(schedule);
}

PipelineSplitStyle default_style(PipelineScheduleType schedule) {
  return schedule == PipelineScheduleType::zbv_zero_bubble ? PipelineSplitStyle::v
                                                           : PipelineSplitStyle::loop;
}

ReplicateAndShardDegree DataParallelConfig::get_replicate_and_shard_degree(
    int64_t dp_world_size, int64_t num_nodes) const {
  if (num_replicas) check_divides("num_replicas", *num_replicas, dp_world_size);
  if (shard_degree) check_divides("shard_degree", *shard_degree, dp_world_size);
  if (needs_num_nodes()) {
    TSR_CHECK(num_nodes > 0 && dp_world_size % num_nodes == 0,
              "the default is one replica per node, ", "but the ", dp_world_size,
              " data parallel ranks cannot be divided among ", num_nodes,
              " nodes; set DataParallelConfig.num_replicas or shard_degree");
  }
  const int64_t replicas =
      num_replicas.value_or(shard_degree ? dp_world_size / *shard_degree : num_nodes);
  const int64_t shards = shard_degree.value_or(dp_world_size / replicas);
  TSR_CHECK(dp_world_size / replicas == shards, "num_replicas=", replicas,
            " times shard_degree=", shards, " is not the number of ranks, ", dp_world_size,
            "; leave one of them out, or choose ", dp_world_size / replicas, " shards");
  return {replicas, shards};
}

PipelineSplitStyle PipelineParallelConfig::infer_style() const {
  return style.value_or(default_style(schedule));
}

int64_t PipelineParallelConfig::final_stage_rank() const {
  return infer_style() == PipelineSplitStyle::loop ? degree - 1 : 0;
}

std::vector<int64_t> PipelineParallelConfig::rank_completion_order() const {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < degree; ++rank) ranks.push_back(rank);
  if (infer_style() == PipelineSplitStyle::loop) std::ranges::reverse(ranks);
  return ranks;
}

std::vector<int64_t> PipelineParallelConfig::stage_ids_this_rank(int64_t pp_rank,
                                                                 int64_t num_stages) const {
  TSR_CHECK(degree > 0, "PipelineParallelConfig.degree is ", degree, ", but must be at least 1");
  TSR_CHECK(num_stages > 0 && num_stages % degree == 0, num_stages,
            " stages cannot be divided evenly among ", degree,
            " pipeline ranks; choose a multiple of that number");
  TSR_CHECK(0 <= pp_rank && pp_rank < degree, "rank ", pp_rank, " is outside a pipeline of ",
            degree, " ranks; choose 0 to ", degree - 1);
  if (infer_style() == PipelineSplitStyle::loop) {
    std::vector<int64_t> stages;
    for (int64_t stage = pp_rank; stage < num_stages; stage += degree) stages.push_back(stage);
    return stages;
  }
  TSR_CHECK(num_stages / degree == 2, "style v puts 2 stages on each of the ", degree,
            " pipeline ranks, not ", num_stages / degree,
            "; choose twice as many stages as ranks, or style loop");
  return {pp_rank, num_stages - 1 - pp_rank};
}

std::vector<int64_t> TransformerPipelineParallelConfig::get_split_points(int64_t n_layers) const {
  if (split_points) {
    check_split_points(*split_points, n_layers);
    return *split_points;
  }
  const int64_t per_rank = is_single_stage(schedule) ? 1 : 2;
  return even_split_points(n_layers, checked_multiply(degree, per_rank, "the number of stages"));
}

}  // namespace tessera::olmo
