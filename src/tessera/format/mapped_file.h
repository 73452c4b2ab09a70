#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A memory-mapped file: nothing is copied, and pages are read on first access. The file must not
/// shrink in the meantime.
class MappedFile {
 public:
  /// DataError if it cannot be opened or is not a regular file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// The whole file, mapped until this object is destroyed.
  std::span<const std::byte> bytes() const { return bytes_; }
  /// As given to the constructor.
  const std::string& path() const { return path_; }

  /// Reads `out.size()` bytes from `begin` on. Faster than copying from bytes(), whose pages must
  /// be mapped first.
  void read(size_t begin, std::span<std::byte> out) const;

 private:
  std::string path_;
  Descriptor file_;
  std::span<const std::byte> bytes_;
};

}  // namespace tessera
