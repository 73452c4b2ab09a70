#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tessera/base/export.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/plan/nemo/plan.h"

/// NeMo AutoModel's `mesh_utils` under its names, on the current world. docs/dialects/nemo.md lists
/// where this differs from the page.
///
///   World::make_current(World::connect());
///   const auto [device_mesh, moe_mesh] = nemo::create_device_mesh(
///       nemo::FSDP2Config{.sequence_parallel = true}, {.dp_replicate_size = 2, .tp_size = 2}, 8);
///   // or, in any order, nemo::ParallelismSizes().with_tp_size(2).with_dp_replicate_size(2)
///   all_reduce(x, device_mesh->get_group("dp_cp")).wait();
namespace tessera {
namespace nemo TSR_API {

/// The device mesh and the mesh of the experts, where there are such.
using DeviceMeshes = std::pair<std::optional<DeviceMesh>, std::optional<DeviceMesh>>;

/// **Collective.** FSDP2: a mesh (pp, dp_replicate, dp_shard, cp, tp), flattened axes dp,
/// dp_shard_cp and dp_cp, and the MoE mesh where ep_size is above 1. Megatron-FSDP: a mesh
/// (dp, cp, tp), with dp_cp where cp_size is above 1. DDP: none.
///
/// `world_size` must be what there is: the current world's ranks, or the listed ones. Ranks that
/// are not listed may call as well, and hold meshes that they are not in. What is refused is
/// refused by all ranks alike, before anything is made.
DeviceMeshes create_device_mesh(const DistributedConfig& distributed_config,
                                const ParallelismSizes& sizes,
                                std::optional<int64_t> world_size = std::nullopt,
                                const MeshOptions& options = {});

/// The page's parts of it, over the whole world.
DeviceMeshes _create_fsdp2_device_mesh(std::optional<int64_t> dp_size,
                                       std::optional<int64_t> dp_replicate_size, int64_t tp_size,
                                       int64_t pp_size, int64_t cp_size, int64_t ep_size,
                                       int64_t world_size, const std::string& backend);
DeviceMesh _create_megatron_fsdp_device_mesh(std::optional<int64_t> dp_size, int64_t tp_size,
                                             int64_t cp_size, int64_t world_size,
                                             const std::string& backend);
/// (pp, ep_shard, ep); where their product is not the world, the rest is taken for tp, and each tp
/// rank has a mesh of its own.
DeviceMesh _create_moe_mesh(int64_t pp_size, int64_t ep_shard_size, int64_t ep_size,
                            const std::string& backend);

/// The mesh of one axis through this rank: one of the mesh's own, or a flattened one of its origin.
DeviceMesh get_flat_mesh(const DeviceMesh& device_mesh, const std::string& name);
/// The mesh of several axes, own and flattened ones in any order.
DeviceMesh get_submesh(const DeviceMesh& device_mesh, const AxisNames& names);
/// Over which FSDP2 shards, the replicas first where there are several.
DeviceMesh get_fsdp_dp_mesh(const DeviceMesh& device_mesh,
                            const std::string& dp_replicate_name = "dp_replicate",
                            const std::string& dp_shard_cp_name = "dp_shard_cp");
/// **Collective.** The axis cp as (ring, ulysses); the product of the degrees must be its size.
DeviceMesh create_ring_ulysses_mesh(const DeviceMesh& device_mesh, int64_t ring_degree,
                                    int64_t ulysses_degree);

}  // namespace nemo
}  // namespace tessera
