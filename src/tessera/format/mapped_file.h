#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tessera {

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

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace tessera
