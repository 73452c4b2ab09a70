#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/placement.h"

namespace tessera TSR_API {

/// One placement per mesh axis, outermost first.
using Placements = std::vector<Placement>;

/// "S(0), R".
std::string to_string(std::span<const Placement> placements);
/// Writes to_string(placements).
inline std::ostream& operator<<(std::ostream& out, const Placements& placements) {
  return out << to_string(placements);
}

/// The placements with non-negative dimensions. ConfigError if their number is not that of the mesh
/// axes, for dimensions that a tensor of `num_dims` does not have, and for Partials with different
/// reductions, because their order would matter. Sums and averages may be mixed.
Placements checked_placements(std::span<const Placement> placements, int64_t num_dims,
                              int64_t num_axes);

/// The placements of the gradient of a tensor with these placements: Partial becomes Replicate.
Placements gradient_placements(std::span<const Placement> placements);

}  // namespace tessera
