#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/dtype.h"
#include "tessera/format/safetensors.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// A file of a checkpoint.
struct CheckpointFile {
  std::string path;     // Relative to the checkpoint's folder.
  int64_t bytes = 0;    // Of the whole file, header included.
  uint32_t crc32c = 0;  // Of the whole file.

  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

/// A box of a tensor and the file that holds it, under the tensor's name.
struct CheckpointPiece {
  size_t file = 0;  // Index in CheckpointIndex::files.
  Box box;          // Position in the full tensor.

  friend bool operator==(const CheckpointPiece&, const CheckpointPiece&) = default;
};

/// A tensor of a checkpoint and where its pieces lie.
struct CheckpointTensor {
  DType dtype = DType::kF32;                 // Of all pieces.
  std::vector<int64_t> shape = {};           // Of the full tensor.
  std::vector<CheckpointPiece> pieces = {};  // In a complete index, each element once.

  friend bool operator==(const CheckpointTensor&, const CheckpointTensor&) = default;
};

/// checkpoint.json: all files and tensors of a checkpoint.
struct CheckpointIndex {
  static constexpr std::string_view kFile = "checkpoint.json";  // In the checkpoint's folder.

  int64_t step = 0;                        // Steps done.
  Metadata state = {};                     // E.g. "config": the configuration of the run.
  std::vector<CheckpointFile> files = {};  // Pieces refer to them by index.
  std::map<std::string, CheckpointTensor, std::less<>> tensors = {};  // By name.

  /// Of all files, headers included.
  int64_t total_bytes() const;
  friend bool operator==(const CheckpointIndex&, const CheckpointIndex&) = default;
};

/// The index as the text of its file.
std::string to_json(const CheckpointIndex& index);

/// DataError naming the field for anything malformed: paths that leave the folder, sizes that
/// overflow, boxes outside their tensor.
CheckpointIndex parse_checkpoint_index(std::string_view text, std::string_view origin);

/// DataError unless the pieces of each tensor hold each of its elements exactly once.
void check_complete(const CheckpointIndex& index, std::string_view origin);

/// Adds the files and pieces of `part`, e.g. those of another rank. DataError if a tensor has
/// another dtype or shape there.
void merge(CheckpointIndex& index, const CheckpointIndex& part);

/// What is wrong with boxes that should cover each element of a tensor once; "" if nothing is.
std::string tiling_problem(const std::vector<int64_t>& shape, std::vector<Box> boxes);

}  // namespace tessera
