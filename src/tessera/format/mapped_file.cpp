#include "tessera/format/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

#include "tessera/base/descriptor.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file = checked(open(path.c_str(), O_RDONLY | O_CLOEXEC), "cannot open " + path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw_system_error("cannot read " + path);
  if (!S_ISREG(status.st_mode)) throw DataError(concat(path, " is no plain file"));
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // Nothing can be mapped of an empty file.
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED) throw_system_error("cannot map " + path);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace tessera
