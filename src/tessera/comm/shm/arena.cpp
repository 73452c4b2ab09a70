#include "tessera/comm/shm/arena.h"

#include <unistd.h>

#include <algorithm>
#include <functional>

#include "tessera/base/error.h"

namespace tessera::comm::detail::shm {
namespace {

// Only addresses, no memory: as much as the machine has. A rank maps the arenas of all ranks of its
// host, and a process has 128 TiB of addresses.
size_t most_bytes() {
  constexpr size_t kMost = size_t{256} << 30;
  const auto memory =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = std::min({memory, kMost, Segment::most_bytes()});
  return std::max(kPageBytes, bytes / kPageBytes * kPageBytes);
}

}  // namespace

Arena::Arena()
    : bytes_(most_bytes()),
      segment_(Segment::create(bytes_)),
      end_(in_pages(Segment::kReservedBytes)) {}

std::byte* Arena::allocate(size_t bytes) {
  const size_t wanted = in_pages(bytes);
  const std::lock_guard lock(mutex_);
  auto block = find_free(wanted);
  if (block == free_.end()) block = grow(wanted);
  if (block == free_.end()) return nullptr;
  const auto [offset, size] = *block;
  free_.erase(block);
  if (size > wanted) free_.emplace(offset + wanted, size - wanted);
  used_.emplace(offset, wanted);
  return segment_.data() + offset;
}

void Arena::free(std::byte* buffer) {
  const std::lock_guard lock(mutex_);
  const auto used = used_.extract(static_cast<size_t>(buffer - segment_.data()));
  add_free(used.key(), used.mapped());
}

std::optional<size_t> Arena::offset_of(const std::byte* data) const {
  const std::less<const std::byte*> is_before;
  if (is_before(data, segment_.data()) || !is_before(data, segment_.data() + bytes_)) return {};
  return static_cast<size_t>(data - segment_.data());
}

// The smallest that fits.
Arena::Blocks::iterator Arena::find_free(size_t bytes) {
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    if (block->second < bytes) continue;
    if (best == free_.end() || block->second < best->second) best = block;
  }
  return best;
}

Arena::Blocks::iterator Arena::grow(size_t bytes) {
  const bool ends_free = !free_.empty() && free_.rbegin()->first + free_.rbegin()->second == end_;
  const size_t missing = bytes - (ends_free ? free_.rbegin()->second : 0);
  if (missing > bytes_ - end_) return free_.end();
  try {
    segment_.commit(end_, missing);
  } catch (const DataError&) {
    return free_.end();
  }
  end_ += missing;
  return add_free(end_ - missing, missing);
}

// Joins neighbours.
Arena::Blocks::iterator Arena::add_free(size_t offset, size_t bytes) {
  const auto next = free_.find(offset + bytes);
  if (next != free_.end()) {
    bytes += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return before;
    }
  }
  return free_.emplace(offset, bytes).first;
}

std::shared_ptr<const Segment> OpenArenas::open(const SegmentPlace& place) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Segment>& known = open_[{place.pid, place.inode}];
  if (auto segment = known.lock()) return segment;
  const auto segment = std::make_shared<const Segment>(Segment::open(place));
  known = segment;
  return segment;
}

}  // namespace tessera::comm::detail::shm
