#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/placement.h"

namespace tessera TSR_API {

/// What each axis of a mesh does to a tensor, outermost first.
using Placements = std::vector<Placement>;

/// "S(0), R".
std::string to_string(std::span<const Placement> placements);
inline std::ostream& operator<<(std::ostream& out, const Placements& placements) {
  return out << to_string(placements);
}

/// The placements with dimensions counted from the front. Refuses another number than the mesh's
/// axes, dimensions that a tensor of `num_dims` does not have, and partial values of several kinds
/// of reduction: their order would matter. Sums and averages may be mixed.
Placements checked_placements(std::span<const Placement> placements, int64_t num_dims,
                              int64_t num_axes);

/// Where the gradient of a tensor of these placements lies: a partial value's is whole on every
/// rank.
Placements gradient_placements(std::span<const Placement> placements);

}  // namespace tessera
