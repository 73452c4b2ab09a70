#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The first layer of each stage but the first, for layers divided as evenly as possible.
///
/// The remainder goes to the stages right after the first one, which also holds the embedding: 10
/// layers on 4 stages are 2, 3, 3 and 2, which gives {2, 5, 8}.
std::vector<int64_t> even_split_points(int64_t num_layers, int64_t num_stages);

/// ConfigError if the points do not increase from 0 to the number of layers. The first stage may
/// hold only the embedding (point 0), and the last only the head (point num_layers).
void check_split_points(std::span<const int64_t> points, int64_t num_layers);

}  // namespace tessera
