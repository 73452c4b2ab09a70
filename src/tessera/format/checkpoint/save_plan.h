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
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {};
  std::vector<Box> boxes = {};
};

/// A box of a tensor for one rank to write.
struct PieceToSave {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {};  // Of the full tensor.
  Box box;

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
