#pragma once

#include <algorithm>
#include <cstddef>

#include "tessera/comm/shm/board.h"

/// How tensors are cut into the chunks of rounds; the same on all ranks.
namespace tessera::comm::detail::shm {

inline constexpr size_t kLine = 64;
inline constexpr size_t kLeastChunk = size_t{64} << 10;

constexpr size_t down_to_line(size_t bytes) {
  return bytes / kLine * kLine;
}
constexpr size_t up_to_line(size_t bytes) {
  return down_to_line(bytes + kLine - 1);
}
constexpr size_t num_chunks(size_t bytes, size_t chunk) {
  return (bytes + chunk - 1) / chunk;
}

/// Large enough to pay off, small enough that ranks work on different chunks at the same time.
inline size_t chunk_of(size_t bytes) {
  return std::clamp(down_to_line(bytes / 4), kLeastChunk, kSlotBytes);
}

/// The same for chunks with a region for each rank; `bytes` per rank.
inline size_t region_of(size_t bytes, int size) {
  const auto ranks = static_cast<size_t>(size);
  return std::max(kLine, down_to_line(chunk_of(bytes * ranks) / ranks));
}

struct Piece {
  size_t begin = 0;
  size_t bytes = 0;
};

inline Piece piece_of(size_t total, size_t chunk, size_t index) {
  const size_t begin = std::min(total, chunk * index);
  return {begin, std::min(chunk, total - begin)};
}

}  // namespace tessera::comm::detail::shm
