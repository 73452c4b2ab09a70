#include "tessera/plan/nemo/plan.h"

#include <algorithm>
#include <array>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/plan/internal/sizes.h"

namespace tessera {

using namespace plan::detail;

namespace {

using nemo::DDPConfig;
using nemo::DistributedConfig;
using nemo::FSDP2Config;
using nemo::MegatronFSDPConfig;
using nemo::MeshOptions;
using nemo::MoeMesh;
using nemo::ParallelismSizes;

/// Checked sizes.
struct Checked {
  ParallelismSizes sizes;  // As given.
  int64_t dp = 1;
  int64_t replicate = 1;
};

struct Unsupported {
  const char* name;
  const char* what;
  int64_t size;
};

void check_unsupported(std::string_view strategy, const std::vector<Unsupported>& features) {
  for (const auto& [name, what, size] : features) {
    TSR_CHECK(size == 1, strategy, " has no ", what, ", but ", name, " is ", size,
              "; set it to 1, or choose fsdp2");
  }
}

void check_strategy(const DistributedConfig& config, const ParallelismSizes& sizes) {
  const Unsupported pp{"pp_size", "pipeline parallelism", sizes.pp_size};
  const Unsupported ep{"ep_size", "expert parallelism", sizes.ep_size};
  const char* const strategy = strategy_name(config);
  const int64_t replicate = sizes.dp_replicate_size.value_or(1);
  TSR_CHECK(std::holds_alternative<FSDP2Config>(config) || replicate <= 1, "dp_replicate_size ",
            replicate, " needs fsdp2, but the strategy is ", strategy,
            "; leave it out, or choose fsdp2");
  if (std::holds_alternative<MegatronFSDPConfig>(config)) check_unsupported(strategy, {pp, ep});
  if (std::holds_alternative<DDPConfig>(config)) {
    check_unsupported(strategy, {{"tp_size", "tensor parallelism", sizes.tp_size},
                                 pp,
                                 {"cp_size", "context parallelism", sizes.cp_size},
                                 ep});
  }
}

void check_sizes(const ParallelismSizes& sizes) {
  check_positive("tp_size", sizes.tp_size);
  check_positive("pp_size", sizes.pp_size);
  check_positive("cp_size", sizes.cp_size);
  check_positive("ep_size", sizes.ep_size);
}

const std::string& backend_of(const DistributedConfig& config) {
  return std::visit([](const auto& strategy) -> const std::string& { return strategy.backend; },
                    config);
}

void check_backend(const std::string& backend) {
  static const std::array<std::string, 2> kKnown{"nccl", "gloo"};
  TSR_CHECK(std::ranges::find(kKnown, backend) != kKnown.end(), "back end '", backend,
            "' is unknown; choose nccl or gloo", did_you_mean(backend, kKnown));
}

// The rest of the ranks. NeMo accepts any given size and then leaves ranks out.
int64_t data_parallel_size(int64_t num_ranks, const ParallelismSizes& sizes) {
  const AxisSizes others{
      {"tp_size", sizes.tp_size}, {"cp_size", sizes.cp_size}, {"pp_size", sizes.pp_size}};
  const int64_t dp = sizes.dp_size.value_or(0);
  if (dp <= 0) return divide_world(num_ranks, others);
  const std::array factors{dp, sizes.tp_size, sizes.cp_size, sizes.pp_size};
  const int64_t product = checked_product(factors, "the product of the parallel sizes");
  TSR_CHECK(product == num_ranks, "dp_size ", dp,
            " does not fit: dp_size·tp_size·cp_size·pp_size = ", product, ", but there are ",
            num_ranks, " ranks; leave dp_size out to infer it");
  return dp;
}

int64_t replicate_size(int64_t dp, const ParallelismSizes& sizes) {
  const int64_t replicate = std::max<int64_t>(sizes.dp_replicate_size.value_or(1), 1);
  TSR_CHECK(dp % replicate == 0, "dp_size ", dp, " is not divisible by dp_replicate_size ",
            replicate, "; choose a divisor of ", dp);
  TSR_CHECK(replicate == 1 || replicate < dp, "dp_replicate_size ", replicate,
            " leaves nothing to shard in dp_size ", dp,
            "; choose a smaller divisor, or ddp to replicate everything");
  return replicate;
}

void check_experts(const Checked& checked, MoeMesh moe) {
  const auto& [sizes, dp, replicate] = checked;
  const bool with_tp = moe == MoeMesh::kToday;
  const int64_t shared = dp * sizes.cp_size * (with_tp ? sizes.tp_size : 1);
  const bool today_fits = shared * sizes.tp_size % sizes.ep_size == 0;
  TSR_CHECK(shared % sizes.ep_size == 0, "ep_size ", sizes.ep_size,
            " does not divide dp_size·cp_size", with_tp ? "·tp_size" : "", " = ", shared,
            "; choose a divisor of ", shared,
            !with_tp && today_fits ? ", or today's MoE mesh, which includes tp" : "");
}

Checked check(const DistributedConfig& config, const ParallelismSizes& sizes, int64_t num_ranks,
              MoeMesh moe) {
  check_sizes(sizes);
  check_backend(backend_of(config));
  check_strategy(config, sizes);
  const int64_t dp = data_parallel_size(num_ranks, sizes);
  Checked checked{sizes, dp, replicate_size(dp, sizes)};
  check_experts(checked, moe);
  return checked;
}

AxisSizes axes_of(const DistributedConfig& config, const Checked& checked) {
  const auto& [sizes, dp, replicate] = checked;
  if (std::holds_alternative<DDPConfig>(config)) return {{"dp", dp}};
  if (std::holds_alternative<MegatronFSDPConfig>(config)) {
    return {{"dp", dp}, {"cp", sizes.cp_size}, {"tp", sizes.tp_size}};
  }
  return {{"pp", sizes.pp_size},
          {"dp_replicate", replicate},
          {"dp_shard", dp / replicate},
          {"cp", sizes.cp_size},
          {"tp", sizes.tp_size}};
}

Layout layout_of(const AxisSizes& axes, int64_t world, const MeshOptions& options) {
  if (!options.ranks) return Layout::row_major(axes);
  return line_of(to_ranks(*options.ranks), world).split("ranks", axes);
}

AxisNames axes_of_experts(MoeMesh moe) {
  if (moe == MoeMesh::kDocument) return {"dp_replicate", "dp_shard", "cp"};
  return {"dp_replicate", "dp_shard", "cp", "tp"};
}

Layout moe_layout(const Layout& world, int64_t ep, MoeMesh moe) {
  const AxisNames axes = axes_of_experts(moe);
  return world.flatten(axes, "ep")
      .split("ep", {{"ep_shard", world.group_size(axes) / ep}, {"ep", ep}});
}

struct FlattenedAxis {
  std::string name;
  AxisNames axes;
};

std::vector<FlattenedAxis> flattened_axes(const Layout& world, bool moe_line) {
  if (!world.has_axis("dp_shard")) {
    const bool has_cp = world.has_axis("cp") && world.axis("cp").size() > 1;
    return has_cp ? std::vector<FlattenedAxis>{{"dp_cp", {"dp", "cp"}}}
                  : std::vector<FlattenedAxis>{};
  }
  std::vector<FlattenedAxis> flattened{{"dp", {"dp_replicate", "dp_shard"}},
                                       {"dp_shard_cp", {"dp_shard", "cp"}},
                                       {"dp_cp", {"dp_replicate", "dp_shard", "cp"}}};
  if (moe_line) {
    const AxisNames axes = axes_of_experts(MoeMesh::kToday);
    flattened.push_back({join(axes, "_"), axes});
  }
  return flattened;
}

// Reductions over groups that include dp, and sends between stages, overlap with other work.
Lane lane_of(const std::string& name) {
  if (name == "pp") return Lane::kP2p;
  const bool reduces = name == "ep_shard" || (name.starts_with("dp") && !name.ends_with("tp"));
  return reduces ? Lane::kReduce : Lane::kCompute;
}

/// The common settings of all groups of the meshes.
struct Common {
  GroupBackend backend = GroupBackend::kDefault;
  std::optional<std::chrono::minutes> timeout = std::nullopt;
};

// NeMo documents NCCL as the default, but its groups use the world's back end unless Gloo is
// configured.
Common common_of(const std::string& backend, const MeshOptions& options = {}) {
  Common common;
  if (backend == "gloo") common.backend = GroupBackend::kGloo;
  if (options.timeout_minutes) {
    check_minutes("timeout_minutes", *options.timeout_minutes);
    common.timeout = std::chrono::minutes(*options.timeout_minutes);
  }
  return common;
}

GroupSpec spec_of(const std::string& name, const Layout& layout, AxisNames axes,
                  const Common& common) {
  return {.name = name,
          .label = name,
          .groups = GroupFamily(layout, std::move(axes)),
          .backend = common.backend,
          .timeout = common.timeout,
          .lane = lane_of(name)};
}

std::vector<GroupSpec> specs_of(const Layout& world, const std::optional<Layout>& moe,
                                const Common& common, bool moe_line) {
  std::vector<GroupSpec> specs;
  for (const std::string& axis : world.axis_names()) {
    specs.push_back(spec_of(axis, world, {axis}, common));
  }
  for (const auto& [name, axes] : flattened_axes(world, moe_line)) {
    specs.push_back(spec_of(name, world, axes, common));
  }
  if (!moe) return specs;
  for (const char* axis : {"ep_shard", "ep"}) specs.push_back(spec_of(axis, *moe, {axis}, common));
  return specs;
}

}  // namespace

Plan nemo_plan(int64_t world, const DistributedConfig& config, const ParallelismSizes& sizes,
               const MeshOptions& options) {
  TSR_CHECK(!options.ranks || !options.ranks->empty(),
            "the list of ranks is empty; list at least 1, or leave it out for the whole world");
  const auto num_ranks = options.ranks ? static_cast<int64_t>(options.ranks->size()) : world;
  const Checked checked = check(config, sizes, num_ranks, options.moe_mesh);
  const Layout layout = layout_of(axes_of(config, checked), world, options);
  std::vector<NamedLayout> layouts{{"world", layout}};
  std::optional<Layout> moe;
  if (sizes.ep_size > 1) {
    moe = moe_layout(layout, sizes.ep_size, options.moe_mesh);
    layouts.push_back({"moe", *moe});
  }
  // NeMo cuts its MoE mesh out of a flattened axis, but not if ranks are listed.
  const bool moe_line = moe && options.moe_mesh == MoeMesh::kToday && !options.ranks;
  return Plan(world, std::move(layouts),
              specs_of(layout, moe, common_of(backend_of(config), options), moe_line));
}

Plan nemo_moe_plan(int64_t world, int64_t pp_size, int64_t ep_shard_size, int64_t ep_size,
                   const std::string& backend) {
  check_backend(backend);
  const int64_t tp = divide_world(
      world, {{"pp_size", pp_size}, {"ep_shard_size", ep_shard_size}, {"ep_size", ep_size}});
  const Layout moe = Layout::row_major(
      {{"pp", pp_size}, {"ep_shard", ep_shard_size}, {"ep", ep_size}, {"tp", tp}});
  const Common common = common_of(backend);
  std::vector<GroupSpec> specs;
  for (const char* axis : {"pp", "ep_shard", "ep"}) {
    specs.push_back(spec_of(axis, moe, {axis}, common));
  }
  return Plan(world, {{"moe", moe}}, std::move(specs));
}

}  // namespace tessera
