#include "tessera/dialect/olmo/parallel.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/dialect/internal/arguments.h"
#include "tessera/dialect/olmo/utils.h"
#include "tessera/plan/olmo/plan.h"

namespace tessera::olmo {
namespace {

/// The dialect's state per world.
struct WorldMesh {
  explicit WorldMesh(const WorldHandle&) {}
  std::optional<DeviceMesh> mesh;
};

World& current_world() {
  World* const world = World::current();
  if (world == nullptr) {
    throw StateError("this process is connected to no others; call init_distributed first");
  }
  return *world;
}

// The back end for tensors of the device; a fake world supports all devices.
Backend backend_of(const std::optional<std::string>& device_type, const WorldHandle& world) {
  TSR_CHECK(!device_type || device_type == "cpu" || device_type == "cuda", "device type '",
            *device_type, "' is unknown; choose cpu or cuda, or leave it to the world");
  if (!device_type || world.backend() == Backend::kFake) return Backend::kAuto;
  return device_type == "cpu" ? Backend::kGloo : Backend::kNccl;
}

int64_t num_nodes_for(const WorldMeshConfig& config) {
  const bool needed =
      config.dp && config.dp->name == DataParallelType::hsdp && config.dp->needs_num_nodes();
  return needed ? get_num_nodes() : 1;
}

void check_free(const WorldMesh& state) {
  if (state.mesh) {
    throw StateError(concat("this world has a world mesh already, ", *state.mesh,
                            "; use get_world_mesh, or build the other one with make_mesh"));
  }
}

/// A dimension of a sub-mesh, and the dimensions of the mesh that it consists of.
struct Dimension {
  std::string name;
  AxisNames axes;
};

// The data-parallel dimensions, in order.
std::vector<Dimension> data_dimensions(const DeviceMesh& mesh) {
  const Layout& layout = mesh.layout();
  if (layout.has_axis("ep_replicate") && layout.has_axis("ep_shard")) {
    return {{"dp", {"ep_replicate", "ep_shard"}}};
  }
  TSR_CHECK(!layout.has_axis("dp_cp"), mesh, " has no data parallel sub-mesh: dp_cp was flattened ",
            "from dp and cp; ask the mesh from which it was cut");
  std::vector<Dimension> dimensions;
  for (const std::string& name : layout.axis_names()) {
    if (name.starts_with("dp")) dimensions.push_back({name, {name}});
  }
  TSR_CHECK(!dimensions.empty(), mesh, " has no data parallel sub-mesh: none of its dimensions ",
            "begins with dp; build it with a DataParallelConfig");
  const auto dp = std::ranges::find(dimensions, "dp", &Dimension::name);
  if (dp != dimensions.end() && layout.has_axis("ep")) *dp = {"dp_ep", {"dp", "ep"}};
  return dimensions;
}

DeviceMesh sub_mesh(const DeviceMesh& mesh, const std::vector<Dimension>& dimensions) {
  AxisNames names;
  for (const auto& [name, axes] : dimensions) {
    if (axes.size() > 1) mesh.slice(axes).flatten(name);
    names.push_back(name);
  }
  return mesh.slice(names);
}

// The sub-mesh of one dimension: the first candidate that exists.
DeviceMesh sub_mesh(const DeviceMesh& mesh, const AxisNames& candidates, const char* kind,
                    const char* config) {
  const auto at = std::ranges::find_if(
      candidates, [&](const std::string& name) { return mesh.layout().has_axis(name); });
  TSR_CHECK(at != candidates.end(), mesh, " has no ", kind, " sub-mesh: it has no dimension ",
            join(candidates, " or "), "; build it with ", config);
  return mesh.slice({*at});
}

}  // namespace

DeviceMesh make_mesh(const WorldHandle& world, const Plan& plan,
                     const std::optional<std::string>& device_type) {
  const Layout& layout = plan.layout("world");
  const auto options_of = [backend = backend_of(device_type, world)](const GroupSpec& spec) {
    return GroupOptions{.lane = spec.lane, .backend = backend};
  };
  AxisOptions options;
  for (const std::string& name : layout.axis_names()) options[name] = options_of(plan.spec(name));
  const DeviceMesh mesh(world, layout, options);
  for (const GroupSpec& spec : plan.specs()) {
    if (layout.has_axis(spec.name)) continue;
    mesh.slice(spec.groups.axes()).flatten(spec.name, options_of(spec));
  }
  return mesh;
}

DeviceMesh build_world_mesh(const WorldMeshConfig& config,
                            const std::optional<std::string>& device_type) {
  World& world = current_world();
  WorldMesh& state = world.attached<WorldMesh>();
  std::optional<Plan> plan;
  // The environment may differ between ranks.
  check_together(world, "the configuration of build_world_mesh", [&] {
    check_free(state);
    (void)backend_of(device_type, world);
    plan = olmo_plan(world.size(), config, num_nodes_for(config));
  });
  dialect::detail::check_same_arguments(
      world.group(), "build_world_mesh",
      dialect::detail::lines_of(config, device_type, num_nodes_for(config)));
  const DeviceMesh mesh = make_mesh(world, *plan, device_type);
  if (config != WorldMeshConfig{}) state.mesh = mesh;
  return mesh;
}

std::optional<DeviceMesh> get_world_mesh() {
  World* const world = World::current();
  return world == nullptr ? std::nullopt : world->attached<WorldMesh>().mesh;
}

DeviceMesh build_expert_parallel_mesh(const ExpertParallelConfig& ep_config,
                                      const std::optional<std::string>& device_type) {
  const World& world = current_world();
  const int64_t degree = ep_config.degree < 0 ? world.size() : ep_config.degree;
  TSR_CHECK(degree > 0 && world.size() % degree == 0, "ExpertParallelConfig.degree is ", degree,
            ", which does not divide the ", world.size(),
            " ranks; choose a divisor of that number, or -1 for all of them");
  dialect::detail::check_same_arguments(
      world.group(), "build_expert_parallel_mesh",
      {concat("degree ", degree), concat("device_type ", device_type.value_or("None"))});
  const GroupOptions options{.backend = backend_of(device_type, world)};
  const DeviceMesh mesh(
      world, Layout::row_major({{"ep_replicate", world.size() / degree}, {"ep_shard", degree}}),
      {{"ep_replicate", options}, {"ep_shard", options}});
  mesh.flatten("dp", options);
  return mesh;
}

DeviceMesh get_dp_mesh(const DeviceMesh& device_mesh) {
  return sub_mesh(device_mesh, data_dimensions(device_mesh));
}

DeviceMesh get_dp_model_mesh(const DeviceMesh& device_mesh) {
  std::vector<Dimension> dimensions = data_dimensions(device_mesh);
  if (device_mesh.layout().has_axis("cp")) {
    dimensions.back().axes.push_back("cp");
    dimensions.back().name = "dp_cp";
  }
  return sub_mesh(device_mesh, dimensions);
}

DeviceMesh get_dp_replicate_mesh(const DeviceMesh& device_mesh) {
  return sub_mesh(device_mesh, {"dp_replicate"}, "data parallel replicate", "HSDP");
}

DeviceMesh get_dp_shard_mesh(const DeviceMesh& device_mesh) {
  return sub_mesh(device_mesh, {"dp_shard"}, "data parallel shard", "HSDP");
}

DeviceMesh get_tp_mesh(const DeviceMesh& device_mesh) {
  return sub_mesh(device_mesh, {"tp"}, "tensor parallel", "a TensorParallelConfig");
}

DeviceMesh get_cp_mesh(const DeviceMesh& device_mesh) {
  return sub_mesh(device_mesh, {"cp"}, "context parallel", "a ContextParallelConfig");
}

DeviceMesh get_pp_mesh(const DeviceMesh& device_mesh) {
  return sub_mesh(device_mesh, {"pp"}, "pipeline parallel", "a PipelineParallelConfig");
}

DeviceMesh get_ep_mesh(const DeviceMesh& device_mesh) {
  return sub_mesh(device_mesh, {"ep", "ep_shard", "dp_shard"}, "expert parallel", "HSDP");
}

DeviceMesh get_pp_stage_mesh(const DeviceMesh& device_mesh,
                             const std::optional<DeviceMesh>& pp_mesh) {
  const AxisNames left_out = (pp_mesh ? *pp_mesh : get_pp_mesh(device_mesh)).axis_names();
  AxisNames names;
  for (const std::string& name : device_mesh.axis_names()) {
    if (std::ranges::find(left_out, name) == left_out.end()) names.push_back(name);
  }
  TSR_CHECK(!names.empty(), device_mesh, " has no dimension other than ", join(left_out, ", "),
            ", so a stage has no mesh; a stage of one rank needs none");
  return device_mesh.slice(names);
}

Group get_dp_process_group(const DeviceMesh& device_mesh) {
  const DeviceMesh mesh = get_dp_mesh(device_mesh);
  return (mesh.ndim() == 1 ? mesh : mesh.flatten("dp")).get_group();
}

std::string get_device_mesh_info(const DeviceMesh& device_mesh) {
  std::vector<std::string> dimensions;
  for (const Axis& axis : device_mesh.layout().axes()) {
    dimensions.push_back(concat(axis.name(), "=", axis.size()));
  }
  return concat(device_mesh.ndim(), "D device mesh with shape (", join(dimensions, ", "),
                device_mesh.ndim() == 1 ? ",)" : ")");
}

DeviceMesh flatten_mesh(const DeviceMesh& device_mesh, const std::optional<std::string>& name) {
  return device_mesh.flatten(name.value_or(""));
}

ReplicateAndShardDegree get_replicate_and_shard_degree(const DataParallelConfig& config,
                                                       int64_t dp_world_size) {
  const int64_t num_nodes = config.needs_num_nodes() ? get_num_nodes() : 1;
  return config.get_replicate_and_shard_degree(dp_world_size, num_nodes);
}

void maybe_enable_async_tp(const TensorParallelConfig& config, const DeviceMesh& tp_mesh) {
  TSR_CHECK(!config.enable_async, "asynchronous tensor parallelism was asked for on ", tp_mesh,
            ", but it is a pass of PyTorch's compiler, which LibTorch does not have; set "
            "enable_async to false");
}

}  // namespace tessera::olmo
