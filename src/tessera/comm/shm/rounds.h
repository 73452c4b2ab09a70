#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/comm/shm/board.h"
#include "tessera/comm/shm/chunks.h"
#include "tessera/comm/shm/numbers.h"

namespace tessera::comm::detail::shm {

/// What to reduce, and how.
struct ReduceCall {
  Number number = Number::kFloat;
  Reduction reduction = Reduction::kSum;
  size_t count = 0;

  size_t bytes() const { return count * size_of(number); }
};

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

/// The rounds of a communicator's collectives, as one rank sees them.
///
/// A collective is a sequence of rounds, the same on all ranks. In a round, ranks write to their
/// slot, post that, wait for the posts of others and read their slots; a slot is written again once
/// all ranks are done with its last round.
class Rounds {
 public:
  explicit Rounds(const Board& board);

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The rank `distance` after this one.
  int neighbour(int distance) const { return (rank_ + distance) % size_; }
  /// The round that is read next.
  uint32_t current() const { return round_; }

  /// Reached when all ranks are done with the last round in this slot.
  AllRanks slot_free(uint32_t round);
  std::byte* own_slot(uint32_t round) const { return board_.slot(rank_, round); }
  const std::byte* slot(int rank) const { return board_.slot(rank, round_); }

  /// Offers the input of an operation to the other ranks where it lies, if they can read it there
  /// and it is large. Returns whether they can; otherwise write() copies it.
  bool offer(const std::byte* input, size_t bytes);
  /// Reached when nobody reads the offered input any more; await it after the last round.
  AllRanks given_back();
  /// The same if it is known that nobody does.
  void withdraw() { place_ = 0; }
  /// Where a rank offers its input in the current round; null if it wrote it to its slot.
  const std::byte* offered(int rank) const;

  /// Into this rank's slot, at `at`; does nothing if the input was offered.
  void write(uint32_t round, size_t at, const std::byte* from, size_t bytes) const {
    if (place_ == 0) copy_for_others(own_slot(round) + at, from, bytes);
  }
  /// What a rank wrote to its slot of the current round, or the same part of its offered input.
  const std::byte* read(int rank, size_t in_slot, size_t in_input) const {
    const std::byte* const input = offered(rank);
    return input == nullptr ? slot(rank) + in_slot : input + in_input;
  }

  /// Says what this rank takes part in, and that it has written. Returns the number of the post.
  uint32_t post(const Call& call, uint32_t round, bool more = false);
  /// That it has written more in the same round.
  uint32_t post_again();
  /// The number of a post of which this rank has no part.
  uint32_t skip_post() { return ++posts_; }
  uint32_t num_posts() const { return posts_; }
  Awaited posted(int rank, uint32_t number) const;
  AllRanks all_posted(uint32_t number) const { return {&board_, &RankLine::posted, number}; }

  /// Throws if the rank takes part in another collective. Returns whether it has more to send.
  bool check_call(int rank, const Call& call) const;
  void check_calls(const Call& call) const;
  /// Combines what read() gives of all ranks, in their order; `own` is that of this one.
  void reduce(const ReduceCall& call, std::byte* output, const std::byte* own, size_t in_slot,
              Piece in_input);
  void finish() { line_.done.set(++round_); }

 private:
  bool is_free(uint32_t round) const { return static_cast<int32_t>(free_until_ - round) > 0; }
  void look_for_free();

  const Board& board_;
  const int rank_;
  const int size_;
  RankLine& line_;
  uint32_t posts_ = 0;  // Of all ranks that took part in everything.
  uint32_t round_ = 0;
  uint64_t place_ = 0;               // Of the offered input; 0 if there is none.
  uint32_t free_until_ = kNumSlots;  // As far as this rank knows.
  std::vector<const std::byte*> rows_;
};

}  // namespace tessera::comm::detail::shm
