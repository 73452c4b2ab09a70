#include "tessera/comm/shm/board.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace tessera::comm::detail::shm {
namespace {

// Not a power of 2, so that equal places in slots lie in different parts of a cache.
constexpr size_t kSlotStride = kSlotBytes + 320;

// Offsets in the segment: the token, the counters, the slots, the rings.
constexpr size_t kLinesAt = 128;
static_assert(kLinesAt >= Segment::kReservedBytes);
constexpr size_t kSlotsPerRank = in_pages(kNumSlots * kSlotStride);
constexpr size_t kRingBytes = in_pages(kNumRingChunks * sizeof(RingChunk));

size_t rings_at(size_t size) {
  return kLinesAt + size * sizeof(RankLine);
}
size_t slots_at(size_t size) {
  return in_pages(rings_at(size) + size * size * sizeof(RingLine));
}
size_t ring_chunks_at(size_t size) {
  return slots_at(size) + size * kSlotsPerRank;
}

}  // namespace

size_t Board::bytes_for(int size) {
  const auto n = static_cast<size_t>(size);
  return ring_chunks_at(n) + n * n * kRingBytes;
}

Board::Board(std::shared_ptr<const Segment> segment, int rank, const std::vector<pid_t>& pids,
             Arenas arenas)
    : segment_(std::move(segment)), rank_(rank), pids_(pids), arenas_(std::move(arenas)) {
  for (const pid_t pid : pids) {
    const auto process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    processes_.push_back(checked(process, "cannot watch another process"));
  }
}

RankLine& Board::line(int rank) const {
  return reinterpret_cast<RankLine*>(segment_->data() + kLinesAt)[rank];
}

std::byte* Board::slot(int rank, uint32_t round) const {
  return segment_->data() + slots_at(processes_.size()) +
         static_cast<size_t>(rank) * kSlotsPerRank + round % kNumSlots * kSlotStride;
}

RingLine& Board::ring(int from, int to) const {
  return reinterpret_cast<RingLine*>(segment_->data() +
                                     rings_at(processes_.size()))[from * size() + to];
}

RingChunk& Board::ring_chunk(int from, int to, uint32_t number) const {
  const auto pair = static_cast<size_t>(from * size() + to);
  std::byte* const ring = segment_->data() + ring_chunks_at(processes_.size()) + pair * kRingBytes;
  return reinterpret_cast<RingChunk*>(ring)[number % kNumRingChunks];
}

// An arena starts with its token, so no buffer lies at 0.
uint64_t Board::place_of(const std::byte* data) const {
  return arenas_.own == nullptr ? 0 : arenas_.own->offset_of(data).value_or(0);
}

const std::byte* Board::at(int rank, uint64_t place) const {
  return arenas_.of_rank[static_cast<size_t>(rank)]->data() + place;
}

void Board::commit_counters() const {
  segment_->commit(0, slots_at(processes_.size()));
}

void Board::commit_slots() const {
  segment_->commit(slots_at(processes_.size()) + static_cast<size_t>(rank_) * kSlotsPerRank,
                   kSlotsPerRank);
}

void Board::commit_ring(int to) const {
  const auto pair = static_cast<size_t>(rank_ * size() + to);
  segment_->commit(ring_chunks_at(processes_.size()) + pair * kRingBytes, kRingBytes);
}

Awaited AllRanks::missing() const {
  for (int rank = 0; board != nullptr && rank < board->size(); ++rank) {
    if (rank == board->rank()) continue;
    const Awaited one{&(board->line(rank).*counter), number, rank};
    if (!one.reached()) return one;
  }
  return {};
}

bool Board::has_ended(int rank) const {
  pollfd process{.fd = processes_[static_cast<size_t>(rank)].get(), .events = POLLIN, .revents = 0};
  return poll(&process, 1, 0) == 1;
}

}  // namespace tessera::comm::detail::shm
