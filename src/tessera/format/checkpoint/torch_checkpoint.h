#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/dtype.h"
#include "tessera/format/mapped_file.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// A piece of a tensor in a folder of torch.distributed.checkpoint.
struct TorchChunk {
  Box box;             // Position in the full tensor.
  std::string file{};  // In the folder.
  int64_t begin = 0;   // Offset in the file of a zip archive that holds it.
  int64_t size = 0;    // Bytes of the archive, which torch.save() wrote.
};

/// A tensor of PyTorch's distributed checkpoint.
struct TorchTensor {
  DType dtype = DType::kF32;            // Of all chunks.
  std::vector<int64_t> shape = {};      // Of the full tensor.
  std::vector<TorchChunk> chunks = {};  // In the order of `.metadata`.
};

/// What `.metadata` of such a folder says about tensors; other values are passed over. DataError
/// for anything malformed. Only builds records: nothing in the file is run.
std::map<std::string, TorchTensor> parse_torch_metadata(std::span<const std::byte> bytes,
                                                        std::string_view origin);

/// A folder that torch.distributed.checkpoint.save() wrote, to read from.
class TorchCheckpoint {
 public:
  /// DataError if it is none, or if its chunks do not make up each tensor.
  explicit TorchCheckpoint(std::string folder);

  /// By name in the saved state dict.
  const std::map<std::string, TorchTensor>& tensors() const& { return tensors_; }
  std::map<std::string, TorchTensor> tensors() && { return std::move(tensors_); }
  /// Copies the elements of a box, row-major.
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const;

 private:
  const MappedFile& open(const std::string& file) const;

  std::string folder_;
  std::map<std::string, TorchTensor> tensors_;
  mutable std::map<std::string, MappedFile> opened_;
};

/// The elements of a tensor as torch.save() writes it: the bytes within the archive. DataError
/// unless it is one contiguous tensor of this dtype and shape.
std::span<const std::byte> torch_tensor_bytes(std::span<const std::byte> archive, DType dtype,
                                              const std::vector<int64_t>& shape,
                                              std::string_view origin);

}  // namespace tessera
