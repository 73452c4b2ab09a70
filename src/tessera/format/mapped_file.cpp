#include "tessera/format/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/read_file.h"
#include "tessera/base/text.h"

namespace tessera {

MappedFile::MappedFile(const std::string& path) : path_(path), file_(open_plain_file(path)) {
  struct stat status {};
  if (fstat(file_.get(), &status) != 0) throw_system_error("cannot read " + path);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // An empty file cannot be mapped.
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file_.get(), 0);
  if (start == MAP_FAILED) throw_system_error("cannot map " + path);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::move(other.file_)),
      bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::read(size_t begin, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(file_.get(), out.data(), out.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("cannot read " + path_);
    if (got == 0)
      throw DataError(
          concat(path_, " ends at offset ", begin, "; was it truncated in the meantime?"));
    begin += static_cast<size_t>(got);
    out = out.subspan(static_cast<size_t>(got));
  }
}

}  // namespace tessera
