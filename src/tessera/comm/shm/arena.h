#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tessera/comm/shm/segment.h"

namespace tessera::comm::detail::shm {

/// Memory of this process that the other ranks of its host can read: buffers for what is sent.
/// A freed buffer is used again; the system gets nothing back before the arena ends.
///
/// Threads: any.
class Arena {
 public:
  Arena();

  /// Null if there is no memory left.
  std::byte* allocate(size_t bytes);
  void free(std::byte* buffer);

  /// Where the memory begins in the arena; empty if it lies elsewhere.
  std::optional<size_t> offset_of(const std::byte* data) const;
  const Segment& segment() const { return segment_; }

 private:
  using Blocks = std::map<size_t, size_t>;  // Sizes by offset.
  Blocks::iterator find_free(size_t bytes);
  Blocks::iterator grow(size_t bytes);
  Blocks::iterator add_free(size_t offset, size_t bytes);

  const size_t bytes_;
  const Segment segment_;
  std::mutex mutex_;
  size_t end_;  // No memory is reserved from here on.
  Blocks free_;
  std::unordered_map<size_t, size_t> used_;
};

/// The arenas of other processes, each opened once.
///
/// Threads: any.
class OpenArenas {
 public:
  /// DataError if it cannot be opened.
  std::shared_ptr<const Segment> open(const SegmentPlace& place);

 private:
  std::mutex mutex_;
  std::map<std::pair<pid_t, ino_t>, std::weak_ptr<const Segment>> open_;
};

}  // namespace tessera::comm::detail::shm
