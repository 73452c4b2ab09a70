#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/parallel/fsdp/fsdp_options.h"
#include "tessera/parallel/recorded_work.h"
#include "tessera/parallel/unit_recorder.h"
#include "tessera/tensor/parameter.h"

namespace tessera::fsdp::detail {

/// Parameters of a unit as one flat buffer, of which each rank of a group keeps one piece. One
/// collective gathers all of them, one reduces all their gradients.
///
/// The module's own tensors stay the same objects. They have memory only while gathered.
class FlatShard {
 public:
  /// Takes the memory of `full` and makes `local` the shards of the same parameters: tensors of
  /// their place's elements, without memory yet. If `full` have values, `local` take theirs.
  FlatShard(std::vector<at::Tensor> full, std::vector<Parameter*> local, const FsdpGroups& groups,
            const FsdpOptions& options);

  /// Whether a live FlatShard has the memory of this tensor.
  static bool has(const at::Tensor& full);

  /// Whether its parameters belong to experts.
  bool of_experts() const { return of_experts_; }
  /// Where to record from now on.
  void record(const UnitLog& log) { log_ = log; }

  /// Moves the values of the local parameters into one buffer, of which they become views.
  void pack();

  /// **Collective.** Starts to gather; nothing if that was done already.
  void start_gather();
  /// Waits until the module's tensors have their values.
  void finish_gather();
  /// Takes their memory back.
  void free();
  /// The same, but the ranks of the smaller group together keep the values for the next gather.
  void free_to_smaller();
  /// The next gather() gathers again, e.g. since the shards have new values; the memory stays.
  void expire();
  /// Whether the module's tensors have the values of the last gather.
  bool is_gathered() const { return is_gathered_; }
  /// Changes with every change of the shards.
  uint64_t version() const;

  /// The buffer whose storage has the module's tensors.
  const at::Tensor& flat() const { return flat_; }
  /// The tensors whose gradients are reduced.
  std::vector<at::Tensor> trained() const;

  /// Takes over the gradients of the module's tensors if they are reduced in another dtype, so that
  /// they are summed up in it.
  void collect_gradients();
  /// **Collective.** Starts to sum up the gradients of the module's tensors, and drops them.
  /// `share` is the weight of this rank's gradients.
  void start_reduce(double share);
  /// **Collective.** Waits for the sum over the shards and starts that over the replicas.
  void advance_reduce();
  /// Waits for the sums, and keeps them.
  void finish_reduce();
  /// Per trained tensor: whether this rank has had a gradient for it since the last publish().
  const std::vector<bool>& seen() const { return seen_; }
  /// Adds the sums to the gradients of the local parameters: those that any rank has `seen`, in the
  /// order of trained().
  void publish(const std::vector<bool>& seen);
  /// Drops all gradients since the last publish(), and waits for sums in flight.
  void drop_gradients();

 private:
  struct Member {
    at::Tensor full;
    bool is_trained = false;  // When it was sharded; it may be frozen later.
    int64_t begin = 0;        // In the flat buffer.
    at::Tensor local;         // This rank's run of it, maybe empty,
    int64_t local_begin = 0;  // and where it begins in this rank's piece.
  };
  bool has_gradients() const;
  at::ScalarType reduce_dtype() const { return options_.reduce_dtype.value_or(dtype_); }
  at::Tensor source() const;
  at::Tensor flat_gradients(double share);

  std::vector<Member> members_ = {};
  bool of_experts_;
  Group gatherers_;
  Group smaller_;   // For Reshard::kToSmaller.
  Group reducers_;  // The gatherers on another lane: gathers and reductions are in flight at once.
  Group replicas_;
  FsdpOptions options_;
  at::ScalarType dtype_;                      // Of the gathered parameters.
  int64_t piece_ = 0;                         // Elements per rank, the last ones padding.
  at::Tensor flat_;                           // Has memory while gathered.
  std::shared_ptr<const void> registration_;  // For has().
  at::Tensor shard_ = {};
  at::Tensor kept_ = {};       // This rank's piece between the ranks of the smaller group.
  at::Tensor collected_ = {};  // Gradients of earlier passes, flat.
  at::Tensor sums_ = {};       // Of this rank's piece.
  std::vector<bool> seen_ = {};
  std::optional<RecordedWork<Work>> gather_ = std::nullopt;
  std::optional<RecordedWork<Work>> reduce_ = std::nullopt;  // Over the shards, then the replicas.
  UnitLog log_ = {};
  UnitSpan held_ = {};
  bool is_advanced_ = false;
  bool is_gathered_ = false;
};

}  // namespace tessera::fsdp::detail
