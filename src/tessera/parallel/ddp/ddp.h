#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/parallel/no_sync.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// How gradients are reduced.
struct DdpOptions {
  /// Gradients are reduced in buckets of about this size: small ones start earlier, large ones have
  /// less overhead.
  int64_t bucket_bytes = int64_t{4} << 20;
  /// Dtype in which gradients are summed, e.g. at::kFloat for bf16 parameters. The default is the
  /// dtype of the parameters.
  std::optional<at::ScalarType> reduce_dtype = std::nullopt;
};

/// The tensors of a replicated model.
struct DdpTensors {
  Parameters parameters = {};  // Frozen ones have no gradients to reduce.
  Parameters buffers = {};     // Not reduced; see Ddp::broadcast_buffers().
};

/// The tensors of a torch::nn::Module, or of any class with the same named_parameters() and
/// named_buffers().
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

/// Keeps the replicas of a model on the ranks of a group equal: after each backward() every rank
/// has the gradients of the whole batch.
///
///   Ddp ddp(ddp_tensors(*model), mesh.get_group("dp"));  // Copies rank 0's values to all ranks.
///   loss.backward();                                     // Overlaps the reduction.
///   optimizer.step();
///
/// A gradient is the average over the ranks, or with set_share() the weighted sum. If a parameter
/// has a gradient on some ranks only, it counts as zeros on the others; if it has one on no rank,
/// it stays without. After a reduction, gradients are views into the buckets, which the next
/// reduction overwrites. With another reduce_dtype they are tensors of their own.
///
/// Every reduction is **collective**: all ranks of the group run the same passes in the same order.
/// Only one backward pass may run at a time, and double backward is not supported. In a group of
/// one rank, and in a fake world, nothing is reduced.
///
/// Passes are numbered from 1, and the ranks compare the numbers at the end of each reduction. If a
/// backward pass throws on one rank, every rank gets an error: that rank a StateError at its next
/// call, the others a CommError in their current pass. All of them refuse further passes until
/// recover().
///
/// At the end of a reduction the host waits for what the other ranks report, e.g. these numbers.
/// For the sums it waits as Work::wait() does: over NCCL the GPU waits instead.
///
/// Threads: only one thread at a time may call backward() on the model, or a function of this
/// class. Autograd calls the hooks on the thread that called backward(), for CUDA on its own thread
/// of that device; that thread also starts reductions and waits for them. Different Ddp objects may
/// be used from different threads.
class [[nodiscard]] Ddp {
  struct State;

 public:
  /// **Collective.** Compares names, shapes and dtypes across the ranks, then copies rank 0's
  /// parameters and buffers to all. If the ranks differ, all throw the same ConfigError, which
  /// names the rank and the difference. Communicates on the group's reduce lane.
  Ddp(const DdpTensors& tensors, const Group& group, const DdpOptions& options = {});
  Ddp(Ddp&&) noexcept;
  Ddp& operator=(Ddp&&) noexcept;
  ~Ddp();

  /// Gradient accumulation: during its lifetime, backward() only adds to this rank's own gradients.
  /// The next reduction sums what has accumulated.
  NoSync no_sync() const;

  /// Local. Sets this rank's share of the rows of the global batch, so that the mean losses of
  /// uneven local batches give the same gradients as one process. The default is 1/size. The shares
  /// of all ranks must add up to 1; the next reduction checks that.
  void set_share(double share) const;

  /// **Collective.** Reduces the current gradients: after passes under no_sync(), after deferred
  /// weight gradients, or on a rank without rows. The same as start_reduce() and finish_reduce().
  void reduce() const;
  /// **Collective.** Returns without waiting for the sums; only the first reduction waits for rank
  /// 0, which chooses the buckets. StateError if a reduction is in flight.
  void start_reduce() const;
  /// **Collective.** Waits until the gradients are reduced. StateError without start_reduce().
  void finish_reduce() const;

  /// Local. Sets the number of the next pass; later passes count up from there. Pass the step
  /// number before each backward(): if ranks are then in different steps, because one has skipped a
  /// step, all get CommError instead of mixed gradients.
  void set_pass(int64_t number) const;
  /// **Collective.** After a failed pass, every rank catches its error and calls this; then all
  /// continue with the next pass. Drops the gradients, because some are incomplete. StateError
  /// between start_reduce() and finish_reduce().
  void recover() const;

  /// **Collective.** Copies rank 0's buffers to all ranks. Call it before a forward pass.
  void broadcast_buffers() const;

  /// The group on the reduce lane.
  const Group& group() const;
  /// The parameter names per bucket, in the order of the reductions. This is the order in which the
  /// gradients of the first reduced pass became ready on rank 0. Empty before that pass.
  std::vector<std::vector<std::string>> buckets() const;

 private:
  State& state() const;  // StateError if this object was moved from.
  std::shared_ptr<State> state_;
};

}  // namespace tessera
