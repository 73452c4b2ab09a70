#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/comm/world.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/parallel/pipeline/pipeline.h"
#include "tessera/plan/olmo/config.h"
#include "tessera/plan/plan.h"

/// OLMo-core's `distributed.parallel`. The configuration values are those of plan/olmo/config.h.
/// docs/dialects/olmo.md has every name, and where this differs from the page.
///
/// A mesh that cannot give what it is asked for raises ConfigError.
namespace torch::nn {
class Module;
}

namespace tessera {
namespace olmo TSR_API {

/// **Collective**, in the current world. The mesh of these kinds of parallelism, with every group
/// that the accessors below give for it, so that those are local. It becomes the world mesh, unless
/// nothing is configured. Where one rank refuses, all do, and nothing is left behind.
///
///   const DeviceMesh mesh = build_world_mesh({.dp = {{.name = DataParallelType::hsdp}},
///                                             .tp = {{.degree = 8}}});
///
/// A second world mesh, and a process without a world, raise StateError. `device_type` is cpu or
/// cuda; the world's, unless given.
DeviceMesh build_world_mesh(const WorldMeshConfig& config = {},
                            const std::optional<std::string>& device_type = std::nullopt);
/// What build_world_mesh made in the current world; nothing where it made none.
std::optional<DeviceMesh> get_world_mesh();
/// **Collective.** The same mesh from olmo_plan, in any world and without becoming the world mesh.
DeviceMesh make_mesh(const WorldHandle& world, const Plan& plan,
                     const std::optional<std::string>& device_type = std::nullopt);
/// **Collective**, in the current world. All ranks as (ep_replicate, ep_shard), the second of them
/// of the degree; a negative degree is the whole world. Does not become the world mesh.
DeviceMesh build_expert_parallel_mesh(const ExpertParallelConfig& ep_config,
                                      const std::optional<std::string>& device_type = std::nullopt);

// Sub-meshes through this rank, of any mesh with the page's names. Those with flattened dimensions
// are collective where the mesh was not made by a function above.

/// Whom data is shared out among: (dp), or for HSDP (dp_replicate, dp_shard).
DeviceMesh get_dp_mesh(const DeviceMesh& device_mesh);
/// Over which a model is wrapped: the same, but the last dimension and cp, where there is one, are
/// flattened into dp_cp.
DeviceMesh get_dp_model_mesh(const DeviceMesh& device_mesh);
DeviceMesh get_dp_replicate_mesh(const DeviceMesh& device_mesh);
DeviceMesh get_dp_shard_mesh(const DeviceMesh& device_mesh);
DeviceMesh get_tp_mesh(const DeviceMesh& device_mesh);
DeviceMesh get_cp_mesh(const DeviceMesh& device_mesh);
DeviceMesh get_pp_mesh(const DeviceMesh& device_mesh);
/// The first that there is of ep, ep_shard and dp_shard.
DeviceMesh get_ep_mesh(const DeviceMesh& device_mesh);
/// All dimensions but those of `pp_mesh`, which is get_pp_mesh(device_mesh) unless given.
DeviceMesh get_pp_stage_mesh(const DeviceMesh& device_mesh,
                             const std::optional<DeviceMesh>& pp_mesh = std::nullopt);
/// The group of get_dp_mesh, flattened into dp where that has two dimensions.
Group get_dp_process_group(const DeviceMesh& device_mesh);

/// "2D device mesh with shape (dp=2, tp=4)".
std::string get_device_mesh_info(const DeviceMesh& device_mesh);
/// **Collective.** The mesh as one dimension, the first one slowest; named after all of them unless
/// a name is given, and known by it to every mesh of the same origin.
DeviceMesh flatten_mesh(const DeviceMesh& device_mesh,
                        const std::optional<std::string>& name = std::nullopt);

/// DataParallelConfig's, with the number of nodes that the variables tell.
ReplicateAndShardDegree get_replicate_and_shard_degree(const DataParallelConfig& config,
                                                       int64_t dp_world_size);
/// Refuses enable_async: it is a pass of PyTorch's compiler, which LibTorch does not have.
void maybe_enable_async_tp(const TensorParallelConfig& config, const DeviceMesh& tp_mesh);

/// Runs a model's stages over a pipeline's ranks: a Pipeline under the page's names. **Collective**
/// among the ranks of pp_mesh, as all it does.
///
///   PipelineSchedule schedule({block}, {{.index = rank, .forward = forward}}, get_pp_mesh(mesh),
///                             PipelineScheduleType::single_1F1B, loss);
///   const auto [outputs, losses] = schedule.step({x}, y);
class PipelineSchedule {
 public:
  using ModelParts = std::vector<std::shared_ptr<torch::nn::Module>>;

  /// `stages` are those of this rank, as many on every rank; `loss_fn` gets every output of the
  /// last stage; `num_microbatches` is the number of ranks unless given. ConfigError for numbers
  /// that the schedule does not have.
  PipelineSchedule(ModelParts model_parts, std::vector<Stage> stages, const DeviceMesh& pp_mesh,
                   PipelineScheduleType schedule_name, PipelineLoss loss_fn = {},
                   std::optional<int64_t> num_microbatches = std::nullopt);

  /// Forward and, with a loss function, backward. `args` reach the first stage, `kwargs` every
  /// stage of the rank that gives them. On the rank of the last stage: each of its outputs, joined
  /// over all microbatches, and with a loss function the losses of each. Elsewhere there are no
  /// outputs, and the losses are undefined.
  std::pair<Tensors, at::Tensor> step(const Tensors& args, const at::Tensor& target = {},
                                      const Keywords& kwargs = {});

  const ModelParts& model_parts() const { return model_parts_; }
  std::span<const Stage> stages() const { return pipeline_->stages(); }
  const DeviceMesh& pp_mesh() const { return pp_mesh_; }
  PipelineScheduleType schedule_name() const { return schedule_name_; }
  const PipelineLoss& loss_fn() const { return loss_fn_; }
  int64_t num_microbatches() const { return pipeline_->schedule().microbatches(); }
  /// The table that is executed.
  const Schedule& base_schedule() const { return pipeline_->schedule(); }
  bool has_first_stage() const { return pipeline_->has_first_stage(); }
  bool has_last_stage() const { return pipeline_->has_last_stage(); }

 private:
  ModelParts model_parts_;
  DeviceMesh pp_mesh_;
  PipelineScheduleType schedule_name_;
  PipelineLoss loss_fn_;
  std::optional<Pipeline> pipeline_;
};

}  // namespace olmo
}  // namespace tessera
