#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/checkpoint/checkpoint_index.h"
#include "tessera/format/safetensors.h"

namespace tessera TSR_API {

/// A checkpoint to read from: any box of any tensor, whatever the layout that wrote it. Opens only
/// the files that it needs. One thread at a time.
class Checkpoint {
 public:
  /// DataError if the folder holds no complete checkpoint.
  explicit Checkpoint(std::string folder);

  /// Its path, as given.
  const std::string& folder() const& { return folder_; }
  std::string folder() && { return std::move(folder_); }
  /// Its checkpoint.json, checked to be complete.
  const CheckpointIndex& index() const& { return index_; }
  CheckpointIndex index() && { return std::move(index_); }
  /// Whether it holds a tensor of this name.
  bool contains(std::string_view name) const { return index_.tensors.contains(name); }
  /// DataError with the nearest name if there is none.
  const CheckpointTensor& tensor(std::string_view name) const&;
  CheckpointTensor tensor(std::string_view name) && { return tensor(name); }

  /// Copies the elements of a box, row-major, in the stored dtype. DataError if a file is missing
  /// or is not the one that was saved.
  void read(std::string_view name, const Box& box, std::span<std::byte> out) const;
  /// Bytes of tensors read so far.
  int64_t bytes_read() const { return bytes_read_; }

  /// Reads a whole file. DataError naming it if its size or checksum is not that of the index, or
  /// its tensors are others. `after_block` receives the number of bytes after each block.
  void verify(size_t file, const std::function<void(int64_t bytes)>& after_block = {}) const;

  /// The path of index().files[file], below folder().
  std::string path_of(size_t file) const;

 private:
  const SafetensorsFile& open(size_t file) const;
  void copy(const SafetensorsFile& file, const StoredTensor& stored, const Box& piece,
            const Box& wanted, std::span<std::byte> out) const;
  const StoredTensor& stored(const SafetensorsFile& file, std::string_view name,
                             const CheckpointTensor& tensor, const CheckpointPiece& piece) const;

  std::string folder_;
  CheckpointIndex index_;
  mutable std::map<size_t, SafetensorsFile> opened_;
  mutable int64_t bytes_read_ = 0;
};

/// Whether the folder holds a complete checkpoint, i.e. an index.
bool is_checkpoint(const std::string& folder);

}  // namespace tessera
