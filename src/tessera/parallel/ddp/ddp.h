#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

struct DdpOptions {
  /// Gradients travel in buckets of about this size: small ones start early, large ones cost less.
  int64_t bucket_bytes = int64_t{4} << 20;
  /// In which dtype gradients are summed, e.g. at::kFloat for bf16 parameters; theirs, unless set.
  std::optional<at::ScalarType> reduce_dtype = std::nullopt;
};

/// What a replicated model consists of.
struct DdpTensors {
  Parameters parameters = {};
  Parameters buffers = {};
};

/// Those of a torch::nn::Module, or of whatever lists them like one.
template <class Module>
DdpTensors ddp_tensors(const Module& module) {
  DdpTensors tensors;
  for (const auto& item : module.named_parameters()) {
    tensors.parameters.push_back({item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers()) {
    tensors.buffers.push_back({item.key(), item.value()});
  }
  return tensors;
}

/// Keeps the copies of a model on the ranks of a group alike: after each backward() every rank has
/// the gradients of the whole batch.
///
///   Ddp ddp(ddp_tensors(*model), mesh.get_group("dp"));  // Now all have rank 0's values.
///   loss.backward();                                     // Reduces while it still computes.
///   optimizer.step();
///
/// A gradient is the average over the ranks, or by set_share() the weighted sum. A parameter
/// without gradient counts as zeros where another rank has one, and stays without where none has.
/// After a reduction gradients are views into buckets, which the next one overwrites; those of
/// another reduce_dtype are tensors of their own.
///
/// Every reduction is **collective**: all ranks of the group do the same passes in the same order.
/// For one backward pass at a time, and not for one that is itself to be differentiated. In a group
/// of one rank, and in a fake world, nothing is done.
///
/// Passes are numbered from 1, and the numbers travel with the gradients. After a backward pass
/// that throws on one rank, every rank gets an error: that one StateError at its next call, the
/// others CommError in the pass that they are in. All of them refuse further passes until
/// recover().
///
/// Thread rules: one thread at a time may call backward() on the model, or anything here. Autograd
/// calls the hooks on the thread that called backward(), or for CUDA on its own thread of that
/// device; reductions are started and waited for there. Different Ddp objects may be used from
/// different threads.
class Ddp {
  struct State;

 public:
  /// **Collective.** Compares names, shapes and dtypes on all ranks, then takes rank 0's values of
  /// parameters and buffers. Where the ranks differ, all throw the same ConfigError, which says who
  /// and in what. Uses the group's ranks on the reduce lane.
  Ddp(const DdpTensors& tensors, const Group& group, const DdpOptions& options = {});
  Ddp(Ddp&&) noexcept;
  Ddp& operator=(Ddp&&) noexcept;
  ~Ddp();

  /// While it lives, backward() adds to the gradients of this rank alone; the next reduction sums
  /// up what has come together.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(std::shared_ptr<State> state);
    NoSync(NoSync&&) noexcept = default;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    std::shared_ptr<State> state_;
  };
  NoSync no_sync() const;

  /// Local. This rank's share of the rows of the global batch, from now on: so that mean losses of
  /// uneven local batches give what one process would compute. 1/size unless set. The shares of all
  /// ranks must add up to 1, which the next reduction checks.
  void set_share(double share) const;

  /// **Collective.** Reduces what the gradients are now: after passes under no_sync(), after
  /// deferred weight gradients, for a rank that has no rows. The first half starts and returns, the
  /// second waits.
  void reduce() const;
  void start_reduce() const;
  void finish_reduce() const;

  /// Local. The number of the next pass; those after it count on from there. Give the number of the
  /// step before each backward(), and ranks that are in different steps, because one of them has
  /// skipped one, all get CommError instead of gradients of different steps.
  void set_pass(int64_t number) const;
  /// **Collective.** After a failed pass: all ranks call it, each when it has caught its error, and
  /// go on together with the next pass. Drops the gradients, of which some are not complete.
  /// StateError between start_reduce() and finish_reduce().
  void recover() const;

  /// **Collective.** Takes rank 0's buffers: for before a forward pass.
  void broadcast_buffers() const;

  /// On the reduce lane.
  const Group& group() const;
  /// The names in each bucket, in the order in which they are sent: as the gradients of the first
  /// reduced pass became ready on rank 0. Empty before it.
  std::vector<std::vector<std::string>> buckets() const;

 private:
  State& state() const;  // StateError once it was moved from.
  std::shared_ptr<State> state_;
};

}  // namespace tessera
