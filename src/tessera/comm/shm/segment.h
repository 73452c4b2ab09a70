#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "tessera/base/descriptor.h"

namespace tessera::comm::detail::shm {

inline constexpr size_t kPageBytes = 4096;

/// So many bytes, rounded up to whole pages.
constexpr size_t in_pages(size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

/// How another process of this host finds a segment.
struct SegmentPlace {
  pid_t pid = 0;
  int descriptor = -1;  // In that process.
  ino_t inode = 0;
  size_t bytes = 0;
  std::string token = "";  // The segment starts with it.
};

std::string to_text(const SegmentPlace& place);
SegmentPlace parse_place(const std::string& text);

/// Memory that processes of one user share. It has no name: other users cannot open it, and the
/// system frees it when the last process ends, however that happens. It does not use /dev/shm.
///
/// No page is touched before commit() has reserved its memory: otherwise a full container would end
/// the process by SIGBUS. All functions throw DataError if the system refuses.
class Segment {
 public:
  static Segment create(size_t bytes);
  /// The most bytes that the system allows: it ends processes that make a larger file.
  static size_t most_bytes();
  /// DataError, too, if the place now holds something else.
  static Segment open(const SegmentPlace& place);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  SegmentPlace place() const;
  std::byte* data() const { return data_; }
  void commit(size_t offset, size_t bytes) const;

  /// For the token.
  static constexpr size_t kReservedBytes = 64;

 private:
  Segment(Descriptor file, size_t bytes);

  Descriptor file_;
  size_t bytes_;
  std::byte* data_;
};

}  // namespace tessera::comm::detail::shm
