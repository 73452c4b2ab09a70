#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/dtype.h"
#include "tessera/format/mapped_file.h"

namespace tessera TSR_API {

/// The largest header, as in the format's own library.
inline constexpr int64_t kLargestSafetensorsHeader = 100'000'000;

/// Name, dtype and shape of a tensor in a file.
struct TensorSpec {
  std::string name;                 // Unique in its file.
  DType dtype = DType::kF32;        // Of the elements; little-endian.
  std::vector<int64_t> shape = {};  // Row-major; empty: a scalar.

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// A tensor of a file and the range of its bytes in the file.
struct StoredTensor {
  TensorSpec spec;    // As in the header.
  int64_t begin = 0;  // Offset of its first byte in the file.
  int64_t end = 0;    // Offset after its last byte.

  /// Of its elements, without the header.
  int64_t num_bytes() const { return end - begin; }
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

/// The `__metadata__` of a file.
using Metadata = std::map<std::string, std::string>;

/// The header of a safetensors file.
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors = {};  // In the order of their bytes.
  Metadata metadata = {};                  // Empty if the file has none.
  int64_t data_begin = 0;                  // Offset in the file.

  friend bool operator==(const SafetensorsHeader&, const SafetensorsHeader&) = default;
};

/// DataError with the offset for a header that is truncated, too large or malformed, repeated
/// names, unknown dtypes, sizes that contradict the offsets, and tensors that overlap or do not
/// cover all bytes after the header.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view origin);

/// A safetensors file, memory-mapped.
///
///   const SafetensorsFile file("model.safetensors");
///   for (const StoredTensor& tensor : file.tensors()) use(tensor.spec, file.bytes(tensor));
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  /// As given to the constructor.
  const std::string& path() const& { return file_.path(); }
  std::string path() && { return file_.path(); }
  /// In the order of their bytes.
  std::span<const StoredTensor> tensors() const& { return header_.tensors; }
  std::vector<StoredTensor> tensors() && { return std::move(header_.tensors); }
  /// Empty if the file has none.
  const Metadata& metadata() const& { return header_.metadata; }
  Metadata metadata() && { return std::move(header_.metadata); }

  /// Null if there is no tensor of that name.
  const StoredTensor* find(std::string_view name) const&;
  const StoredTensor* find(std::string_view name) && = delete;  // It would dangle.
  /// At any address: other writers do not always align.
  std::span<const std::byte> bytes(const StoredTensor& tensor) const&;
  std::span<const std::byte> bytes(const StoredTensor& tensor) && = delete;
  /// Copies `out.size()` bytes of the tensor from `begin` on; faster than from bytes().
  void read(const StoredTensor& tensor, size_t begin, std::span<std::byte> out) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string_view, size_t> by_name_;  // Into header_.tensors.
};

/// Writes a safetensors file in pieces. The file appears under its name when it is finished; until
/// then, and after a failure, an earlier file of that name is unchanged.
class SafetensorsWriter {
 public:
  /// ConfigError for names that are empty, repeated or "__metadata__".
  SafetensorsWriter(std::string path, std::vector<TensorSpec> tensors,
                    const Metadata& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The tensors in the order in which to write their bytes: the widest elements first, so that all
  /// are aligned.
  std::span<const TensorSpec> tensors() const;
  /// The next bytes, in pieces of any size.
  void write(std::span<const std::byte> bytes);
  /// Completes the file; ConfigError if bytes are missing.
  void finish();
  /// Of the whole file, with its header, as far as it is written.
  int64_t size() const;
  uint32_t checksum() const;  // CRC-32C.

 private:
  struct Output;
  std::unique_ptr<Output> output_;
};

}  // namespace tessera
