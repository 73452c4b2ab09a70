#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/base/export.h"
#include "tessera/format/dtype.h"
#include "tessera/format/mapped_file.h"

namespace tessera TSR_API {

/// A memory-mapped file of token ids: a one-dimensional NumPy .npy array, or raw little-endian
/// numbers.
class TokenFile {
 public:
  /// `raw` is the type of raw numbers: U8 (the bytes of a text), U16 or U32. DataError if the file
  /// is not such an array, or ends within a number.
  explicit TokenFile(const std::string& path, DType raw = DType::kU16);

  /// As given to the constructor.
  const std::string& path() const { return file_.path(); }
  /// Of the ids in the file: for .npy that of its header, otherwise `raw`.
  DType dtype() const { return dtype_; }
  /// The number of tokens.
  int64_t size() const { return size_; }
  /// Reads the tokens from `begin` on; ConfigError beyond the end, DataError for a negative id.
  void read(int64_t begin, std::span<int64_t> tokens) const;

 private:
  MappedFile file_;
  DType dtype_;
  std::span<const std::byte> data_;
  int64_t size_ = 0;
};

}  // namespace tessera
