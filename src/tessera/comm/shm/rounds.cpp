#include "tessera/comm/shm/rounds.h"

#include <array>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::comm::detail::shm {
namespace {

constexpr std::array kKinds{"all_reduce", "reduce",  "reduce_scatter", "all_gather", "broadcast",
                            "gather",     "scatter", "all_to_all",     "barrier"};
constexpr uint64_t kMore = uint64_t{1} << 63;
constexpr int kBytesShift = 24;
constexpr size_t kLeastOffered = size_t{256} << 10;  // Below, waiting for all readers costs more.

std::string text_of(uint64_t packed) {
  const uint64_t bytes = (packed & ~kMore) >> kBytesShift;
  return concat(kKinds.at(packed & 15), " of ", bytes, " bytes");
}

}  // namespace

uint64_t Call::packed() const {
  return static_cast<uint64_t>(kind) | static_cast<uint64_t>(number) << 4 |
         static_cast<uint64_t>(reduction) << 8 | static_cast<uint64_t>(root) << 12 |
         static_cast<uint64_t>(bytes) << kBytesShift;
}

Rounds::Rounds(const Board& board)
    : board_(board),
      rank_(board.rank()),
      size_(board.size()),
      line_(board.line(rank_)),
      rows_(static_cast<size_t>(size_)) {}

void Rounds::look_for_free() {
  uint32_t least = round_;
  for (int rank = 0; rank < size_; ++rank) {
    const uint32_t done = board_.line(rank).done.value.load(std::memory_order_acquire);
    if (static_cast<int32_t>(done - least) < 0) least = done;
  }
  free_until_ = least + kNumSlots;
}

// Others' counters are only read once in some rounds: their cache lines are in use.
AllRanks Rounds::slot_free(uint32_t round) {
  if (!is_free(round)) look_for_free();
  if (is_free(round)) return {};
  return {&board_, &RankLine::done, round + 1 - kNumSlots};
}

bool Rounds::offer(const std::byte* input, size_t bytes) {
  place_ = bytes < kLeastOffered ? 0 : board_.place_of(input);
  return place_ != 0;
}

AllRanks Rounds::given_back() {
  if (std::exchange(place_, 0) == 0) return {};
  return {&board_, &RankLine::done, round_};
}

const std::byte* Rounds::offered(int rank) const {
  const uint64_t place =
      board_.line(rank).places[round_ % kNumSlots].load(std::memory_order_relaxed);
  return place == 0 ? nullptr : board_.at(rank, place);
}

uint32_t Rounds::post(const Call& call, uint32_t round, bool more) {
  line_.calls[round % kNumSlots].store(call.packed() | (more ? kMore : 0),
                                       std::memory_order_relaxed);
  line_.places[round % kNumSlots].store(place_, std::memory_order_relaxed);
  return post_again();
}

uint32_t Rounds::post_again() {
  line_.posted.set(++posts_);
  return posts_;
}

Awaited Rounds::posted(int rank, uint32_t number) const {
  return {&board_.line(rank).posted, number, rank};
}

bool Rounds::check_call(int rank, const Call& call) const {
  const uint64_t theirs =
      board_.line(rank).calls[round_ % kNumSlots].load(std::memory_order_relaxed);
  if ((theirs & ~kMore) == call.packed()) return (theirs & kMore) != 0;
  throw CommError(concat("the calls of the ranks differ: rank ", rank_, " of the group called ",
                         text_of(call.packed()), ", rank ", rank, " called ", text_of(theirs),
                         "; set TESSERA_CHECK_COLLECTIVES=1 to compare all calls"));
}

void Rounds::check_calls(const Call& call) const {
  for (int distance = 1; distance < size_; ++distance) check_call(neighbour(distance), call);
}

void Rounds::reduce(const ReduceCall& call, std::byte* output, const std::byte* own, size_t in_slot,
                    Piece in_input) {
  if (in_input.bytes == 0) return;
  for (int rank = 0; rank < size_; ++rank) {
    rows_[static_cast<size_t>(rank)] = rank == rank_ ? own : read(rank, in_slot, in_input.begin);
  }
  reduce_rows(call.number, call.reduction, output, rows_, in_input.bytes / size_of(call.number));
}

}  // namespace tessera::comm::detail::shm
