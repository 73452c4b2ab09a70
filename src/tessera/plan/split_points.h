#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The layer with which each stage but the first begins, for layers shared out as evenly as can be.
///
/// What does not come out even goes to the stages after the first, which holds the embedding, from
/// the front: 10 layers on 4 stages are 2, 3, 3 and 2 and give {2, 5, 8}.
std::vector<int64_t> even_split_points(int64_t num_layers, int64_t num_stages);

/// Refuses points that do not rise from 0 to the number of layers. The first stage may be the
/// embedding alone (point 0), the last the head alone (point num_layers).
void check_split_points(std::span<const int64_t> points, int64_t num_layers);

}  // namespace tessera
