#include "tessera/plan/olmo/plan.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

using olmo::DataParallelConfig;
using olmo::DataParallelType;
using olmo::WorldMeshConfig;

/// The ranks that the dimensions so far leave for the next ones.
class RemainingRanks {
 public:
  explicit RemainingRanks(int64_t world) : count_(world) {}

  int64_t count() const { return count_; }

  void check_degree(const char* config, int64_t degree) const {
    TSR_CHECK(degree > 0, config, ".degree is ", degree, ", but must be at least 1");
    TSR_CHECK(count_ % degree == 0, config, ".degree is ", degree, ", which does not divide the ",
              count_, " remaining ranks; choose a divisor of that number");
  }

  template <class Config>
  void take(const char* name, const std::optional<Config>& config) {
    if (!config) return;
    check_degree(name, config->degree);
    count_ /= config->degree;
  }

 private:
  int64_t count_;
};

void check_data_parallel(const WorldMeshConfig& config) {
  TSR_CHECK(config.dp || (!config.tp && !config.cp && !config.pp && !config.ep),
            "other kinds of parallelism need data parallelism; configure dp, too");
}

void check_expert_parallel(const WorldMeshConfig& config, DataParallelType type,
                           const RemainingRanks& remaining) {
  if (!config.ep) return;
  remaining.check_degree("ExpertParallelConfig", config.ep->degree);
  TSR_CHECK(!config.tp, "expert parallelism (degree ", config.ep->degree,
            ") and tensor parallelism (degree ", config.tp->degree,
            ") exclude each other; leave one of them out");
  TSR_CHECK(type == DataParallelType::hsdp, "expert parallelism (degree ", config.ep->degree,
            ") needs HSDP, not ", type, "; set the data parallel type to hsdp");
}

AxisSizes data_parallel_axes(const DataParallelConfig& dp, const WorldMeshConfig& config,
                             int64_t ranks, int64_t num_nodes) {
  if (dp.name != DataParallelType::hsdp) return {{"dp", ranks}};
  const auto [replicas, shards] = dp.get_replicate_and_shard_degree(ranks, num_nodes);
  TSR_CHECK(!config.ep || config.ep->degree == shards, "ExpertParallelConfig.degree is ",
            config.ep->degree, ", but HSDP shards over ", shards,
            " ranks, which also hold the experts; choose that degree, or set shard_degree");
  return {{"dp_replicate", replicas}, {"dp_shard", shards}};
}

Layout world_layout(int64_t world, const WorldMeshConfig& config, int64_t num_nodes) {
  TSR_CHECK(world > 0, "world size is ", world, ", but must be at least 1");
  check_data_parallel(config);
  const DataParallelConfig dp = config.dp.value_or(DataParallelConfig{});
  RemainingRanks remaining(world);
  remaining.take("PipelineParallelConfig", config.pp);
  remaining.take("ContextParallelConfig", config.cp);
  remaining.take("TensorParallelConfig", config.tp);
  check_expert_parallel(config, dp.name, remaining);
  AxisSizes axes = data_parallel_axes(dp, config, remaining.count(), num_nodes);
  if (config.pp) axes.insert(axes.begin(), {"pp", config.pp->degree});
  if (config.cp) axes.push_back({"cp", config.cp->degree});
  if (config.tp) axes.push_back({"tp", config.tp->degree});
  return Layout::row_major(axes);
}

// Gradient reductions and sends between stages overlap with compute.
Lane lane_of(std::string_view name) {
  if (name == "pp") return Lane::kP2p;
  return name.starts_with("dp") ? Lane::kReduce : Lane::kCompute;
}

GroupSpec spec_of(const std::string& name, const Layout& layout, AxisNames axes) {
  return {.name = name,
          .label = name,
          .groups = GroupFamily(layout, std::move(axes)),
          .lane = lane_of(name)};
}

std::vector<GroupSpec> specs_of(const Layout& layout) {
  std::vector<GroupSpec> specs;
  for (const std::string& name : layout.axis_names()) {
    specs.push_back(spec_of(name, layout, {name}));
  }
  const bool hybrid = layout.has_axis("dp_shard");
  if (hybrid) specs.push_back(spec_of("dp", layout, {"dp_replicate", "dp_shard"}));
  if (layout.has_axis("cp")) {
    specs.push_back(spec_of("dp_cp", layout, {hybrid ? "dp_shard" : "dp", "cp"}));
  }
  return specs;
}

}  // namespace

Plan olmo_plan(int64_t world, const WorldMeshConfig& config, int64_t num_nodes) {
  const Layout layout = world_layout(world, config, num_nodes);
  return Plan(world, {{"world", layout}}, specs_of(layout));
}

}  // namespace tessera
