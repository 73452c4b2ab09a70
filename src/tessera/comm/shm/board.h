#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/comm/shm/arena.h"
#include "tessera/comm/shm/counter.h"
#include "tessera/comm/shm/segment.h"

namespace tessera::comm::detail::shm {

/// Slots per rank: a rank may write the next chunk while others still read earlier ones. With fewer
/// than 4, ranks would wait for each other in an all-reduce.
inline constexpr uint32_t kNumSlots = 4;
inline constexpr size_t kSlotBytes = size_t{512} << 10;
inline constexpr uint32_t kNumRingChunks = 4;
inline constexpr size_t kRingChunkBytes = size_t{64} << 10;

/// What a rank tells the others about its collectives; in cache lines of its own.
struct alignas(128) RankLine {
  Counter posted;  // How often it has written something for others to read.
  Counter done;    // How many rounds it has finished reading.
  std::array<std::atomic<uint64_t>, kNumSlots> calls = {};   // What it takes part in, per slot.
  std::array<std::atomic<uint64_t>, kNumSlots> places = {};  // Of its input, per slot; see Board.
};

/// The counters of the messages from one rank to another.
struct alignas(128) RingLine {
  Counter written;  // Chunks, by the sender.
  alignas(64) Counter read;
};

struct alignas(64) RingChunk {
  uint64_t tag = 0;
  uint64_t message_bytes = 0;  // Of the whole message, in its first chunk and all others.
  uint64_t place = 0;          // Of the whole message; 0 if it is in the chunks.
  alignas(64) std::array<std::byte, kRingChunkBytes> data;
};

/// The memory that ranks read where it lies.
struct Arenas {
  std::shared_ptr<const Arena> own = nullptr;
  std::vector<std::shared_ptr<const Segment>> of_rank = {};  // Null where there is none.
};

/// The members of a group on this host, and where they write in their segment.
class Board {
 public:
  /// How many bytes a segment for so many ranks has. Most of it is never used.
  static size_t bytes_for(int size);

  /// `pids` by rank.
  Board(std::shared_ptr<const Segment> segment, int rank, const std::vector<pid_t>& pids,
        Arenas arenas = {});

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(processes_.size()); }

  RankLine& line(int rank) const;
  std::byte* slot(int rank, uint32_t round) const;
  RingLine& ring(int from, int to) const;
  RingChunk& ring_chunk(int from, int to, uint32_t number) const;

  /// Where other ranks find this memory of this one; 0 if they cannot read it.
  uint64_t place_of(const std::byte* data) const;
  /// What lies at a place of another rank.
  const std::byte* at(int rank, uint64_t place) const;

  /// Reserves the counters. Only one rank needs to.
  void commit_counters() const;
  /// Reserves this rank's slots; each rank does, so that they lie in memory near it.
  void commit_slots() const;
  /// Reserves a ring, before the sender writes to it first.
  void commit_ring(int to) const;

  /// Whether the process of the rank has ended.
  bool has_ended(int rank) const;
  pid_t pid(int rank) const { return pids_[static_cast<size_t>(rank)]; }

 private:
  const std::shared_ptr<const Segment> segment_;
  const int rank_;
  const std::vector<pid_t> pids_;
  const Arenas arenas_;
  std::vector<Descriptor> processes_;
};

/// A number that a counter of every other rank must reach.
struct AllRanks {
  const Board* board = nullptr;  // Null: nothing to wait for.
  Counter RankLine::*counter = nullptr;
  uint32_t number = 0;

  /// The first rank that has not reached it; no counter if all have.
  Awaited missing() const;
};

}  // namespace tessera::comm::detail::shm
