#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/shm/activity.h"
#include "tessera/comm/shm/helper.h"
#include "tessera/comm/shm/numbers.h"
#include "tessera/comm/shm/steps.h"

namespace tessera::comm::detail::shm {

/// What to reduce, and how.
struct ReduceCall {
  Number number = Number::kFloat;
  Reduction reduction = Reduction::kSum;
  size_t count = 0;
};

/// The collectives of one communicator, in the order in which all its ranks start them.
///
/// A collective is a sequence of rounds, the same on all ranks. In a round, ranks write to their
/// slot, post that, wait for the posts of others and read their slots; a slot is written again once
/// all ranks are done with its last round.
///
/// The pointers must stay valid until the operation has ended: `kept` owns the memory.
class CollectiveQueue : public Activity {
 public:
  CollectiveQueue(const Board& board, Patience& patience);

  using Kept = std::shared_ptr<void>;
  using Operation = std::shared_ptr<Pending>;

  Operation all_reduce(std::byte* data, const ReduceCall& call, Kept kept);
  /// Only the root's data changes.
  Operation reduce(std::byte* data, const ReduceCall& call, int root, Kept kept);
  /// `call.count` is that of the output; the input has as many per rank.
  Operation reduce_scatter(std::byte* output, const std::byte* input, const ReduceCall& call,
                           Kept kept);
  /// `bytes` per rank.
  Operation all_gather(std::byte* output, const std::byte* input, size_t bytes, Kept kept);
  Operation broadcast(std::byte* data, size_t bytes, int root, Kept kept);
  /// `outputs` on the root only, one per rank.
  Operation gather(std::vector<std::byte*> outputs, const std::byte* input, size_t bytes, int root,
                   Kept kept);
  /// `inputs` on the root only.
  Operation scatter(std::byte* output, std::vector<const std::byte*> inputs, size_t bytes, int root,
                    Kept kept);
  /// The bytes for each rank, one after the other, and those from each rank.
  Operation all_to_all(std::byte* output, const std::byte* input, std::vector<size_t> receive,
                       std::vector<size_t> send, Kept kept);
  Operation barrier();

 protected:
  Awaited advance() override;
  void fail(const std::exception_ptr& error) override;

 private:
  enum class Kind : uint8_t {
    kAllReduce,
    kReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kGather,
    kScatter,
    kAllToAll,
    kBarrier
  };
  /// What the ranks must agree on; in 64 bits.
  struct Call {
    Kind kind;
    size_t bytes = 0;
    int root = 0;
    Number number = Number::kUint8;
    Reduction reduction = Reduction::kSum;

    uint64_t packed() const;
  };
  struct Collective : Pending {
    Steps steps;
  };

  Operation start(Steps steps, Kept kept);

  Steps all_reduce_flat(std::byte* data, ReduceCall call);
  Steps all_reduce_in_parts(std::byte* data, ReduceCall call);
  Steps reduce_steps(std::byte* data, ReduceCall call, int root);
  Steps reduce_scatter_steps(std::byte* output, const std::byte* input, ReduceCall call);
  Steps all_gather_steps(std::byte* output, const std::byte* input, size_t bytes);
  Steps broadcast_steps(std::byte* data, size_t bytes, int root);
  Steps gather_steps(std::vector<std::byte*> outputs, const std::byte* input, size_t bytes,
                     int root);
  Steps scatter_steps(std::byte* output, std::vector<const std::byte*> inputs, size_t bytes,
                      int root);
  Steps all_to_all_steps(std::byte* output, const std::byte* input, std::vector<size_t> receive,
                         std::vector<size_t> send);
  Steps barrier_steps();

  // ---- For the steps

  std::byte* slot(int rank) const { return board().slot(rank, round_); }
  std::byte* own_slot(uint32_t round) const { return board().slot(rank_, round); }
  /// Whether all ranks are known to be done with the last round in the slot of this one.
  bool is_free(uint32_t round) const { return static_cast<int32_t>(free_until_ - round) > 0; }
  /// Reached when that rank is.
  Awaited slot_free(int rank, uint32_t round) const;
  /// Call it when all are.
  void note_free();
  /// Says what this rank takes part in, and that it has written. Returns the number of the post.
  uint32_t post(const Call& call, uint32_t round, bool more = false);
  uint32_t post_again();
  /// The number of a post of which this rank has no part.
  uint32_t skip_post() { return ++posts_; }
  Awaited posted(int rank, uint32_t number) const;
  /// Throws if the rank takes part in another collective. Returns whether it has more to send.
  bool check_call(int rank, const Call& call) const;
  void finish_round();
  /// Sums in rank order; `own` replaces this rank's slot.
  void reduce_slots(const ReduceCall& call, std::byte* output, const std::byte* own, size_t offset,
                    size_t bytes);
  /// The rank `distance` after this one.
  int neighbour(int distance) const { return (rank_ + distance) % size_; }

  const int rank_;
  const int size_;
  RankLine& line_;
  uint32_t posts_ = 0;  // Of all ranks that took part in everything.
  uint32_t round_ = 0;  // The one that is read next.
  uint32_t free_until_ = kNumSlots;
  std::vector<const std::byte*> rows_;
  std::deque<std::shared_ptr<Collective>> queue_;
  const Helped helped_;  // Last member: it ends first.
};

}  // namespace tessera::comm::detail::shm
