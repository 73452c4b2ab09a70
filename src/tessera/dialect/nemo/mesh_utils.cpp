#include "tessera/dialect/nemo/mesh_utils.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/comm/groups.h"
#include "tessera/dialect/internal/arguments.h"

namespace tessera::nemo {
namespace {

const World& current_world() {
  const World* const world = World::current();
  if (world == nullptr) {
    throw StateError("this process has no current world; call World::make_current first");
  }
  return *world;
}

void check_world_size(std::optional<int64_t> given, const WorldHandle& world,
                      const MeshOptions& options) {
  const auto there = options.ranks ? static_cast<int64_t>(options.ranks->size()) : world.size();
  TSR_CHECK(given.value_or(there) == there, "world_size ", given.value_or(there), " contradicts ",
            options.ranks ? "the list of " : "the current world of ", there,
            " ranks; pass that number, or leave it out");
}

Group group_of(const std::vector<int64_t>& listed, const WorldHandle& world) {
  RankGroup ranks;
  for (const int64_t rank : listed) ranks.emplace_back(rank);
  std::ranges::sort(ranks);
  return world.group(ranks, {.name = "the listed ranks"});
}

GroupOptions options_of(const GroupSpec& spec) {
  const bool gloo = spec.backend == GroupBackend::kGloo;
  return {.name = spec.name,
          .lane = spec.lane,
          .backend = gloo ? Backend::kGloo : Backend::kAuto,
          .timeout = spec.timeout};
}

AxisOptions options_of(const Plan& plan, const Layout& layout) {
  AxisOptions options;
  for (const std::string& axis : layout.axis_names()) options[axis] = options_of(plan.spec(axis));
  return options;
}

DeviceMesh world_mesh(const Plan& plan, const WorldHandle& world) {
  const Layout& layout = plan.layout("world");
  DeviceMesh mesh(world, layout, options_of(plan, layout));
  if (!mesh.is_member()) return mesh;
  for (const GroupSpec& spec : plan.specs()) {
    const AxisNames& axes = spec.groups.axes();
    if (axes.size() > 1) (void)mesh.slice(axes).flatten(spec.name, options_of(spec));
  }
  return mesh;
}

// The expert mesh of this rank, or that of the first rank if this one is in none.
Layout own_moe_layout(const Layout& moe, GlobalRank rank, MoeMesh kind) {
  const AxisNames names =
      kind == MoeMesh::kDocument ? AxisNames{"pp", "ep_shard", "ep"} : AxisNames{"ep_shard", "ep"};
  const Coordinate first(moe.axes().size(), 0);
  return moe.select(names, moe.contains(rank) ? rank : moe.rank(first));
}

// The plan, after checking that all ranks of the mesh have the same one.
Plan agreed_plan(const WorldHandle& world, const DistributedConfig& config,
                 const ParallelismSizes& sizes, std::optional<int64_t> world_size,
                 const MeshOptions& options) {
  std::optional<Plan> plan;
  const auto make = [&] {
    check_world_size(world_size, world, options);
    plan = nemo_plan(world.size(), config, sizes, options);
  };
  if (options.ranks) make();  // Throws before a group is made of an invalid list.
  const Group group = options.ranks ? group_of(*options.ranks, world) : world.group();
  if (!group.is_member()) return *std::move(plan);
  check_together(group, "the configuration of create_device_mesh", make);
  dialect::detail::check_same_arguments(group, "create_device_mesh",
                                        dialect::detail::lines_of(config, sizes, options));
  return *std::move(plan);
}

}  // namespace

DeviceMeshes create_device_mesh(const DistributedConfig& distributed_config,
                                const ParallelismSizes& sizes, std::optional<int64_t> world_size,
                                const MeshOptions& options) {
  const World& world = current_world();
  const Plan plan = agreed_plan(world, distributed_config, sizes, world_size, options);
  if (std::holds_alternative<DDPConfig>(distributed_config)) return {};
  DeviceMeshes meshes{world_mesh(plan, world), std::nullopt};
  if (sizes.ep_size == 1) return meshes;
  const Layout moe = own_moe_layout(plan.layout("moe"), world.rank(), options.moe_mesh);
  meshes.second = DeviceMesh(world, moe, options_of(plan, moe));
  return meshes;
}

DeviceMeshes _create_fsdp2_device_mesh(std::optional<int64_t> dp_size,
                                       std::optional<int64_t> dp_replicate_size, int64_t tp_size,
                                       int64_t pp_size, int64_t cp_size, int64_t ep_size,
                                       int64_t world_size, const std::string& backend) {
  return create_device_mesh(FSDP2Config{.backend = backend},
                            {dp_size, dp_replicate_size, tp_size, pp_size, cp_size, ep_size},
                            world_size);
}

DeviceMesh _create_megatron_fsdp_device_mesh(std::optional<int64_t> dp_size, int64_t tp_size,
                                             int64_t cp_size, int64_t world_size,
                                             const std::string& backend) {
  const ParallelismSizes sizes{.dp_size = dp_size, .tp_size = tp_size, .cp_size = cp_size};
  return *create_device_mesh(MegatronFSDPConfig{.backend = backend}, sizes, world_size).first;
}

DeviceMesh _create_moe_mesh(int64_t pp_size, int64_t ep_shard_size, int64_t ep_size,
                            const std::string& backend) {
  const World& world = current_world();
  dialect::detail::check_same_arguments(
      world.group(), "_create_moe_mesh",
      {concat("pp_size ", pp_size), concat("ep_shard_size ", ep_shard_size),
       concat("ep_size ", ep_size), concat("backend '", backend, "'")});
  const Plan plan = nemo_moe_plan(world.size(), pp_size, ep_shard_size, ep_size, backend);
  const Layout moe = own_moe_layout(plan.layout("moe"), world.rank(), MoeMesh::kDocument);
  return {world, moe, options_of(plan, moe)};
}

DeviceMesh get_flat_mesh(const DeviceMesh& device_mesh, const std::string& name) {
  if (device_mesh.layout().has_axis(name)) return device_mesh.slice({name});
  const std::optional<DeviceMesh> flattened = device_mesh.flattened(name);
  return flattened ? *flattened : device_mesh.slice({name});  // Throws for an unknown name.
}

DeviceMesh get_submesh(const DeviceMesh& device_mesh, const AxisNames& names) {
  std::vector<DeviceMesh> lines;
  for (const std::string& name : names) lines.push_back(get_flat_mesh(device_mesh, name));
  return DeviceMesh::concatenate(lines);
}

DeviceMesh get_fsdp_dp_mesh(const DeviceMesh& device_mesh, const std::string& dp_replicate_name,
                            const std::string& dp_shard_cp_name) {
  const Layout& layout = device_mesh.layout();
  const bool all_own =
      layout.has_axis(dp_replicate_name) && layout.has_axis("dp_shard") && layout.has_axis("cp");
  AxisNames names{!all_own || layout.axis("cp").size() > 1 ? dp_shard_cp_name : "dp_shard"};
  if (!all_own || layout.axis(dp_replicate_name).size() > 1) {
    names.insert(names.begin(), dp_replicate_name);
  }
  return get_submesh(device_mesh, names);
}

DeviceMesh create_ring_ulysses_mesh(const DeviceMesh& device_mesh, int64_t ring_degree,
                                    int64_t ulysses_degree) {
  const AxisSizes parts{{"ring", ring_degree}, {"ulysses", ulysses_degree}};
  return device_mesh.slice({"cp"}).split("cp", parts);
}

}  // namespace tessera::nemo
