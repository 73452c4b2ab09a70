#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/topology/axis.h"

/// What all dialects ask of the sizes that a caller chose.
namespace tessera::plan::detail {

void check_positive(std::string_view name, int64_t size);

/// world / product of the factors, with all of them in the message where it does not divide.
int64_t divide_world(int64_t world, const AxisSizes& factors);

void check_minutes(std::string_view name, int64_t minutes);

}  // namespace tessera::plan::detail
