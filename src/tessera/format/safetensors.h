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

/// A header may be no longer than this, as in the format's own library.
inline constexpr int64_t kLargestSafetensorsHeader = 100'000'000;

struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {};

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// A tensor of a file: what it is, and where its bytes lie in the file.
struct StoredTensor {
  TensorSpec spec;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t num_bytes() const { return end - begin; }
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

using Metadata = std::map<std::string, std::string>;

/// What the header of a safetensors file says.
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors = {};  // In the order of their bytes.
  Metadata metadata = {};
  int64_t data_begin = 0;  // In the file.

  friend bool operator==(const SafetensorsHeader&, const SafetensorsHeader&) = default;
};

/// Checks everything: DataError with the offset for a header that is cut off, too large or broken,
/// names that stand twice, unknown dtypes, sizes that contradict the offsets, tensors that overlap,
/// holes between them, and bytes that belong to none.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view origin);

/// A safetensors file, memory-mapped.
///
///   const SafetensorsFile file("model.safetensors");
///   for (const StoredTensor& tensor : file.tensors()) use(tensor.spec, file.bytes(tensor));
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const& { return file_.path(); }
  std::string path() && { return file_.path(); }
  std::span<const StoredTensor> tensors() const& { return header_.tensors; }
  std::vector<StoredTensor> tensors() && { return std::move(header_.tensors); }
  const Metadata& metadata() const& { return header_.metadata; }
  Metadata metadata() && { return std::move(header_.metadata); }

  /// Null where there is none of that name.
  const StoredTensor* find(std::string_view name) const&;
  const StoredTensor* find(std::string_view name) && = delete;  // It would point into nothing.
  /// May lie at any address: other writers do not always align.
  std::span<const std::byte> bytes(const StoredTensor& tensor) const&;
  std::span<const std::byte> bytes(const StoredTensor& tensor) && = delete;
  /// Copies the tensor's bytes from `begin` on, as many as `out` takes, faster than from bytes().
  void read(const StoredTensor& tensor, size_t begin, std::span<std::byte> out) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string_view, size_t> by_name_;  // Into header_.tensors.
};

/// Writes a safetensors file piece by piece. It appears under its name when it is finished; until
/// then, and where something fails, a file of that name stays what it was.
class SafetensorsWriter {
 public:
  /// Names that are empty, stand twice or are "__metadata__" raise ConfigError.
  SafetensorsWriter(std::string path, std::vector<TensorSpec> tensors,
                    const Metadata& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// In the order in which their bytes are to be written: the widest elements first, so that all
  /// are aligned.
  std::span<const TensorSpec> tensors() const;
  /// The next bytes, in pieces of any size.
  void write(std::span<const std::byte> bytes);
  /// All bytes have come; more or fewer raise ConfigError.
  void finish();

 private:
  struct Output;
  std::unique_ptr<Output> output_;
};

}  // namespace tessera
