#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/dtype.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// A tensor of which a rank holds some boxes, maybe none.
struct HeldTensor {
  std::string name;                 // Equal names on two ranks mean one tensor.
  DType dtype = DType::kF32;        // The same on all ranks.
  std::vector<int64_t> shape = {};  // Of the full tensor.
  std::vector<Box> boxes = {};      // Of this rank; boxes without elements are ignored.
};

/// A box of a tensor for one rank to write.
struct PieceToSave {
  std::string name;                 // Of the full tensor, and in the file.
  DType dtype = DType::kF32;        // Of the full tensor, and in the file.
  std::vector<int64_t> shape = {};  // Of the full tensor.
  Box box;                          // What to write, as a box of the full tensor.

  /// Of the box alone, without headers.
  int64_t num_bytes() const;
  friend bool operator==(const PieceToSave&, const PieceToSave&) = default;
};

/// The pieces that each rank writes, given what each holds: each element once, the bytes spread
/// evenly over the ranks that hold the same box. All ranks compute the same plan.
///
/// ConfigError if the ranks disagree about a tensor, if boxes overlap without being equal, or if
/// nobody holds an element.
std::vector<std::vector<PieceToSave>> plan_save(std::span<const std::vector<HeldTensor>> ranks);

}  // namespace tessera
