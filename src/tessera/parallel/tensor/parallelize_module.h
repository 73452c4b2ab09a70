#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/parallel/tensor/parallel_styles.h"
#include "tessera/tensor/parameter.h"

namespace torch::nn {
class Module;
}

namespace tessera TSR_API {

/// A module whose layers are split over ranks, from parallelize_module(). The module itself is used
/// as before, also with torch::optim:
///
///   ParallelModule parallel = parallelize_module(*net, mesh["tp"], plan);
///   AdamW optimizer(parallel.parameters());
///   loss_of(net->forward(x), y).backward();  // The same x and y on all ranks of the mesh.
///   clip_grad_norm_(parallel.parameters(), 1, parallel.group());
///   optimizer.step(1e-3);
///
/// Forward and backward passes are **collective**. All ranks must run the same operators on
/// parameters, on the thread that called parallelize_module(). Without this object, the module's
/// layers compute on their parts alone.
class [[nodiscard]] ParallelModule {
 public:
  struct State;
  explicit ParallelModule(std::shared_ptr<State> state);
  ParallelModule(ParallelModule&&) noexcept;
  ParallelModule& operator=(ParallelModule&&) noexcept;
  ~ParallelModule();

  /// The module's parameters, each tensor once: this rank's parts of those that are split.
  const Parameters& parameters() const&;
  Parameters parameters() &&;
  /// The ranks whose parts make up the model, for clip_grad_norm_().
  const Group& group() const;

  /// **Collective.** The values of all parameters as a whole, under their names in the module, e.g.
  /// to save them. With fully_shard(), between unshard() and reshard().
  std::vector<std::pair<std::string, at::Tensor>> full_parameters() const;

  /// The shards of fully_shard() on this module, marked so that clip_grad_norm_() over the ranks of
  /// both meshes counts each element once.
  Parameters counted_once(Parameters shards) const;

 private:
  std::shared_ptr<State> state_;
};

/// **Collective.** Tensor parallelism for a module that knows nothing of it: splits the parameters
/// of the layers that the plan names over the ranks of a mesh with one axis, and converts the
/// layers' inputs and outputs. Values are those of the mesh's first rank. Parts may be uneven.
///
/// A layer is a torch::nn::Linear, a torch::nn::Embedding, or a module of your own with a
/// two-dimensional parameter "weight" [outputs, inputs] and maybe a "bias". The module's code may
/// read a weight that is split by torch::linear, addmm and matmul of its transpose, and embedding.
/// If any other operator reads it, a pass with gradients throws ConfigError.
///
/// A weight that an embedding and a linear layer share is split once. If code passes the weight of
/// an embedding to torch::linear, the input has the layout of the embedding's output, and every
/// rank gets the whole result.
///
/// ConfigError, the same on all ranks: a mesh that does not have one axis or lacks this rank, a
/// pattern without a module, a module that its style cannot split, two styles for one parameter,
/// modules or plans that differ, a parameter that is split already or has no memory.
ParallelModule parallelize_module(torch::nn::Module& module, const DeviceMesh& mesh,
                                  const ParallelPlan& plan);

}  // namespace tessera
