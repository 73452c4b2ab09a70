#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A file whose bytes are read where they lie: nothing is copied, and what is not looked at is not
/// read. The file must not shrink meanwhile.
class MappedFile {
 public:
  /// DataError where it cannot be opened or is no plain file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  /// The bytes from `begin` on, as many as `out` takes. For what is copied anyway this is faster
  /// than to copy from bytes(), whose pages would first have to be mapped.
  void read(size_t begin, std::span<std::byte> out) const;

 private:
  std::string path_;
  Descriptor file_;
  std::span<const std::byte> bytes_;
};

}  // namespace tessera
