#include "tessera/comm/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/random_name.h"
#include "tessera/base/text.h"

namespace tessera::comm::detail::shm {
namespace {

#ifndef MFD_NOEXEC_SEAL
constexpr unsigned MFD_NOEXEC_SEAL = 8;  // Since Linux 6.3.
#endif

Descriptor make_file() {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int file = memfd_create("tessera", flags | MFD_NOEXEC_SEAL);
  if (file < 0 && errno == EINVAL) file = memfd_create("tessera", flags);
  return checked(file, "cannot create shared memory");
}

struct stat status_of(const Descriptor& file) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw_system_error("cannot query shared memory");
  return status;
}

}  // namespace

std::string to_text(const SegmentPlace& place) {
  return concat(place.pid, " ", place.descriptor, " ", place.inode, " ", place.bytes, " ",
                place.token);
}

SegmentPlace parse_place(const std::string& text) {
  SegmentPlace place;
  std::istringstream in(text);
  in >> place.pid >> place.descriptor >> place.inode >> place.bytes >> place.token;
  if (!in) throw DataError(concat("'", text, "' is not the place of a segment"));
  return place;
}

Segment::Segment(Descriptor file, size_t bytes) : file_(std::move(file)), bytes_(bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (at == MAP_FAILED) throw_system_error(concat("cannot map ", bytes, " bytes of shared memory"));
  data_ = static_cast<std::byte*>(at);
  // A core dump would touch every page, and an arena has as many as the machine.
  madvise(data_, bytes, MADV_DONTDUMP);
}

Segment::Segment(Segment&& other) noexcept
    : file_(std::move(other.file_)),
      bytes_(other.bytes_),
      data_(std::exchange(other.data_, nullptr)) {}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

size_t Segment::most_bytes() {
  rlimit files{};
  return getrlimit(RLIMIT_FSIZE, &files) == 0 ? files.rlim_cur : 0;
}

Segment Segment::create(size_t bytes) {
  if (bytes > most_bytes()) {
    throw DataError(concat(bytes, " bytes of shared memory are more than a file may have; raise ",
                           "`ulimit -f`"));
  }
  Descriptor file = make_file();
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 || fchmod(file.get(), 0600) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw_system_error(concat("cannot create ", bytes, " bytes of shared memory"));
  }
  Segment segment(std::move(file), bytes);
  segment.commit(0, kReservedBytes);
  const std::string token = random_name();
  std::memcpy(segment.data_, token.c_str(), token.size());
  return segment;
}

Segment Segment::open(const SegmentPlace& place) {
  const std::string path = concat("/proc/", place.pid, "/fd/", place.descriptor);
  Descriptor file = checked(::open(path.c_str(), O_RDWR | O_CLOEXEC), concat("cannot open ", path));
  const struct stat status = status_of(file);
  if (status.st_ino != place.inode || static_cast<size_t>(status.st_size) != place.bytes ||
      place.token.size() >= kReservedBytes) {
    throw DataError(concat(path, " is not the segment of the group"));
  }
  Segment segment(std::move(file), place.bytes);
  const std::string_view start(reinterpret_cast<const char*>(segment.data_), place.token.size());
  if (start != place.token) throw DataError(concat(path, " is not the segment of the group"));
  return segment;
}

SegmentPlace Segment::place() const {
  return {.pid = getpid(),
          .descriptor = file_.get(),
          .inode = status_of(file_).st_ino,
          .bytes = bytes_,
          .token = reinterpret_cast<const char*>(data_)};
}

// In pieces that are done before a profiler's next signal: a signal makes older systems give up.
void Segment::commit(size_t offset, size_t bytes) const {
  constexpr size_t kPiece = size_t{4} << 20;
  constexpr int kMostTries = 100;
  for (size_t done = 0; done < bytes; done += kPiece) {
    const auto begin = static_cast<off_t>(offset + done);
    const auto size = static_cast<off_t>(std::min(kPiece, bytes - done));
    int error = EINTR;
    for (int i = 0; i < kMostTries && error == EINTR; ++i) {
      error = posix_fallocate(file_.get(), begin, size);
    }
    if (error == 0) continue;
    errno = error;
    throw_system_error(concat("there is no memory for ", bytes, " bytes of shared memory"));
  }
}

}  // namespace tessera::comm::detail::shm
