#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tessera/base/export.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/plan/nemo/plan.h"

/// NeMo AutoModel's `mesh_utils` under its names, on the current world. docs/dialects/nemo.md lists
/// the differences from the documented API.
///
///   World::make_current(World::connect());
///   const auto [device_mesh, moe_mesh] = nemo::create_device_mesh(
///       nemo::FSDP2Config{.sequence_parallel = true}, {.dp_replicate_size = 2, .tp_size = 2}, 8);
///   // or, in any order, nemo::ParallelismSizes().with_tp_size(2).with_dp_replicate_size(2)
///   all_reduce(x, device_mesh->get_group("dp_cp")).wait();
namespace tessera {
namespace nemo TSR_API {

/// The device mesh and the expert mesh, if they exist.
using DeviceMeshes = std::pair<std::optional<DeviceMesh>, std::optional<DeviceMesh>>;

/// **Collective.** FSDP2: a mesh (pp, dp_replicate, dp_shard, cp, tp), flattened axes dp,
/// dp_shard_cp and dp_cp, and the MoE mesh if ep_size > 1. Megatron-FSDP: a mesh (dp, cp, tp), with
/// dp_cp if cp_size > 1. DDP: none.
///
/// `world_size` must equal the number of ranks: those of the current world, or the listed ones.
/// Ranks that are not listed may also call it; they get meshes that do not contain them. If the
/// arguments are invalid, all ranks throw before any group is made.
DeviceMeshes create_device_mesh(const DistributedConfig& distributed_config,
                                const ParallelismSizes& sizes,
                                std::optional<int64_t> world_size = std::nullopt,
                                const MeshOptions& options = {});

/// **Collective.** create_device_mesh with FSDP2Config{.backend = backend}, over the whole world.
DeviceMeshes _create_fsdp2_device_mesh(std::optional<int64_t> dp_size,
                                       std::optional<int64_t> dp_replicate_size, int64_t tp_size,
                                       int64_t pp_size, int64_t cp_size, int64_t ep_size,
                                       int64_t world_size, const std::string& backend);
/// **Collective.** The same with MegatronFSDPConfig: the device mesh alone.
DeviceMesh _create_megatron_fsdp_device_mesh(std::optional<int64_t> dp_size, int64_t tp_size,
                                             int64_t cp_size, int64_t world_size,
                                             const std::string& backend);
/// (pp, ep_shard, ep). If their product is not the world size, the remaining factor counts as tp,
/// and each tp rank has its own mesh.
DeviceMesh _create_moe_mesh(int64_t pp_size, int64_t ep_shard_size, int64_t ep_size,
                            const std::string& backend);

/// The mesh of one axis through this rank: an axis of the mesh itself, or a flattened axis of its
/// origin.
DeviceMesh get_flat_mesh(const DeviceMesh& device_mesh, const std::string& name);
/// The mesh of several axes, which may include flattened ones, in any order.
DeviceMesh get_submesh(const DeviceMesh& device_mesh, const AxisNames& names);
/// The mesh over which FSDP2 shards, with the replica axis first if there are several replicas.
DeviceMesh get_fsdp_dp_mesh(const DeviceMesh& device_mesh,
                            const std::string& dp_replicate_name = "dp_replicate",
                            const std::string& dp_shard_cp_name = "dp_shard_cp");
/// **Collective.** Splits the axis cp into (ring, ulysses); the product of the degrees must be its
/// size.
DeviceMesh create_ring_ulysses_mesh(const DeviceMesh& device_mesh, int64_t ring_degree,
                                    int64_t ulysses_degree);

}  // namespace nemo
}  // namespace tessera
