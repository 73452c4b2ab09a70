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

/// OLMo-core's `distributed.parallel`. The configuration values are in plan/olmo/config.h.
/// docs/dialects/olmo.md lists every name and the differences from the documented API.
///
/// ConfigError if a mesh cannot provide what is requested.
namespace torch::nn {
class Module;
}

namespace tessera {
namespace olmo TSR_API {

/// **Collective** in the current world. Makes the mesh of these kinds of parallelism with every
/// group that the accessors below return for it, so that the accessors are local. It becomes the
/// world mesh, unless the configuration is empty. If one rank fails, all ranks throw, and nothing
/// is left behind.
///
///   const DeviceMesh mesh = build_world_mesh({.dp = {{.name = DataParallelType::hsdp}},
///                                             .tp = {{.degree = 8}}});
///
/// StateError if there is already a world mesh, or no world. `device_type` is cpu or cuda; default:
/// the world's.
DeviceMesh build_world_mesh(const WorldMeshConfig& config = {},
                            const std::optional<std::string>& device_type = std::nullopt);
/// The mesh that build_world_mesh made in the current world; nullopt if there is none.
std::optional<DeviceMesh> get_world_mesh();
/// **Collective.** The same mesh from olmo_plan, in any world; it does not become the world mesh.
DeviceMesh make_mesh(const WorldHandle& world, const Plan& plan,
                     const std::optional<std::string>& device_type = std::nullopt);
/// **Collective** in the current world. All ranks as (ep_replicate, ep_shard), where ep_shard has
/// the configured degree; a negative degree means the whole world. Does not become the world mesh.
DeviceMesh build_expert_parallel_mesh(const ExpertParallelConfig& ep_config,
                                      const std::optional<std::string>& device_type = std::nullopt);

// Sub-meshes through this rank, of any mesh with OLMo-core's names. Those with flattened dimensions
// are collective if no function above made the mesh.

/// The data-parallel mesh, over which data is split: (dp), or for HSDP (dp_replicate, dp_shard).
DeviceMesh get_dp_mesh(const DeviceMesh& device_mesh);
/// The mesh for wrapping a model: the same, but with the last dimension and cp, if present,
/// flattened into dp_cp.
DeviceMesh get_dp_model_mesh(const DeviceMesh& device_mesh);
/// (dp_replicate), over which HSDP replicates the model.
DeviceMesh get_dp_replicate_mesh(const DeviceMesh& device_mesh);
/// (dp_shard), over which HSDP shards the model.
DeviceMesh get_dp_shard_mesh(const DeviceMesh& device_mesh);
/// (tp), for tensor parallelism.
DeviceMesh get_tp_mesh(const DeviceMesh& device_mesh);
/// (cp), for context parallelism.
DeviceMesh get_cp_mesh(const DeviceMesh& device_mesh);
/// (pp), for pipeline parallelism.
DeviceMesh get_pp_mesh(const DeviceMesh& device_mesh);
/// The first of ep, ep_shard and dp_shard that exists.
DeviceMesh get_ep_mesh(const DeviceMesh& device_mesh);
/// All dimensions except those of `pp_mesh`; default: get_pp_mesh(device_mesh).
DeviceMesh get_pp_stage_mesh(const DeviceMesh& device_mesh,
                             const std::optional<DeviceMesh>& pp_mesh = std::nullopt);
/// The group of get_dp_mesh, flattened into dp if that has two dimensions.
Group get_dp_process_group(const DeviceMesh& device_mesh);

/// "2D device mesh with shape (dp=2, tp=4)".
std::string get_device_mesh_info(const DeviceMesh& device_mesh);
/// **Collective.** The mesh flattened to one dimension, the first one slowest. Its default name
/// joins all names. Every mesh of the same origin finds it by its name.
DeviceMesh flatten_mesh(const DeviceMesh& device_mesh,
                        const std::optional<std::string>& name = std::nullopt);

/// That of DataParallelConfig, with the number of nodes from the environment.
ReplicateAndShardDegree get_replicate_and_shard_degree(const DataParallelConfig& config,
                                                       int64_t dp_world_size);
/// Throws for enable_async: it is a pass of PyTorch's compiler, which LibTorch lacks.
void maybe_enable_async_tp(const TensorParallelConfig& config, const DeviceMesh& tp_mesh);

/// Runs a model's stages over the ranks of a pipeline: a Pipeline under OLMo-core's names.
/// Constructor and step() are **collective** over the ranks of pp_mesh.
///
///   PipelineSchedule schedule({block}, {{.index = rank, .forward = forward}}, get_pp_mesh(mesh),
///                             PipelineScheduleType::single_1F1B, loss);
///   const auto [outputs, losses] = schedule.step({x}, y);
class PipelineSchedule {
 public:
  /// The modules of this rank's stages.
  using ModelParts = std::vector<std::shared_ptr<torch::nn::Module>>;

  /// `stages` are the stages of this rank; every rank has the same number. `loss_fn` gets every
  /// output of the last stage. `num_microbatches` defaults to the number of ranks. ConfigError for
  /// numbers that the schedule does not support.
  PipelineSchedule(ModelParts model_parts, std::vector<Stage> stages, const DeviceMesh& pp_mesh,
                   PipelineScheduleType schedule_name, PipelineLoss loss_fn = {},
                   std::optional<int64_t> num_microbatches = std::nullopt);

  /// Runs forward and, with a loss function, backward. `args` go to the first stage, `kwargs` to
  /// every stage of the calling rank. The rank of the last stage returns each of its outputs,
  /// concatenated over all microbatches, and with a loss function the loss of each microbatch.
  /// Other ranks return no outputs and undefined losses.
  std::pair<Tensors, at::Tensor> step(const Tensors& args, const at::Tensor& target = {},
                                      const Keywords& kwargs = {});

  /// This rank's, as given; the schedule only keeps them.
  const ModelParts& model_parts() const { return model_parts_; }
  /// This rank's, as given.
  std::span<const Stage> stages() const { return pipeline_->stages(); }
  /// The ranks of this pipeline.
  const DeviceMesh& pp_mesh() const { return pp_mesh_; }
  /// As given to the constructor.
  PipelineScheduleType schedule_name() const { return schedule_name_; }
  /// Empty: step() runs the forward pass only.
  const PipelineLoss& loss_fn() const { return loss_fn_; }
  /// Per step.
  int64_t num_microbatches() const { return pipeline_->schedule().microbatches(); }
  /// The table that is executed.
  const Schedule& base_schedule() const { return pipeline_->schedule(); }
  /// Whether this rank runs the first stage, which gets the `args` of step().
  bool has_first_stage() const { return pipeline_->has_first_stage(); }
  /// Whether this rank runs the last stage, which returns outputs and losses.
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
