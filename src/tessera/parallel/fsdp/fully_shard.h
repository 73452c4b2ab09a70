#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/parallel/fsdp/fsdp_options.h"
#include "tessera/parallel/no_sync.h"
#include "tessera/tensor/parameter.h"

namespace torch::nn {
class Module;
}

namespace tessera TSR_API {

/// How a module is divided into units and sharded.
struct FullyShardOptions {
  /// The names of the modules that are units: they are gathered and freed as a whole. "*" stands
  /// for any part of a name between dots: "layers.*". Parameters outside of all units form one more
  /// unit, which stays gathered during a step.
  std::vector<std::string> units = {};
  /// Also units, unless empty.
  std::function<bool(const std::string& name, const torch::nn::Module& module)> is_unit = {};
  /// `share` is 1 / the number of ranks unless set_share() sets it; `when` must be kPerUnit.
  FsdpOptions fsdp = {};
  /// Sets the values of parameters that were built without memory (docs/deferred.md); this rank
  /// holds parts of them.
  std::function<void(const Parameters&)> fill = {};
};

/// A module whose parameters are sharded, from fully_shard(). The module itself is used as before:
///
///   ShardedModule sharded = fully_shard(*net, mesh, {.units = {"layers.*"}});
///   AdamW optimizer(sharded.parameters());
///   loss_of(net->forward(x), y).backward();  // Each rank its rows of the batch.
///   clip_grad_norm_(sharded.parameters(), 1, sharded.shards());
///   optimizer.step(1e-3);
///
/// Forward and backward passes are **collective**: an operator that reads a parameter first gathers
/// its unit. So is every other read of a parameter, e.g. printing it. All ranks must run the same
/// operators on parameters, on the thread that called fully_shard(). Without this object, the
/// module has no values.
///
/// A backward pass that throws drops the gradients that have accumulated: run the whole step again.
class [[nodiscard]] ShardedModule {
 public:
  struct State;
  explicit ShardedModule(std::shared_ptr<State> state);
  ShardedModule(ShardedModule&&) noexcept;
  ShardedModule& operator=(ShardedModule&&) noexcept;
  ~ShardedModule();

  /// This rank's shards, for the optimizer. A backward pass sets their gradients.
  const Parameters& parameters() const&;
  Parameters parameters() &&;
  /// The names of the units; "" is that of the parameters outside of the others.
  std::vector<std::string> units() const;
  /// The ranks whose shards make up the model, for clip_grad_norm_().
  const Group& shards() const;

  /// Gradient accumulation: during its lifetime, backward() adds to the gradients of the gathered
  /// parameters. The next reduction sums up what has accumulated.
  NoSync no_sync() const;

  /// Local. This rank's share of the rows of the global batch; the shares must add up to 1.
  void set_share(double share) const;

  /// **Collective.** Gathers all parameters of the module, e.g. to save it. They stay gathered
  /// until reshard() or a backward pass.
  void unshard() const;
  /// Local. Frees the gathered parameters of all units.
  void reshard() const;

 private:
  std::shared_ptr<State> state_;
};

/// **Collective.** FSDP for a module that knows nothing of it: shards its parameters over the ranks
/// of a mesh. With one axis, each rank keeps a shard (FSDP); with two, the first has replicas of
/// the shards (HSDP). Values are those of the mesh's first rank.
///
/// ConfigError, the same on all ranks: modules that differ, a parameter that is sharded already, a
/// pattern without a module, a mesh that does not have one or two axes or lacks this rank.
/// A step throws on all ranks alike: ConfigError if parameters were replaced after sharding, or if
/// frozen ones are not frozen any more; StateError if shards change between a forward pass and its
/// backward pass.
ShardedModule fully_shard(torch::nn::Module& module, const DeviceMesh& mesh,
                          const FullyShardOptions& options = {});

}  // namespace tessera
