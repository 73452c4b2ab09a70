#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/topology/axis.h"

/// Checks of sizes that all dialects share.
namespace tessera::plan::detail {

void check_positive(std::string_view name, int64_t size);

/// world / product of the factors; the message shows all factors if that does not divide.
int64_t divide_world(int64_t world, const AxisSizes& factors);

void check_minutes(std::string_view name, int64_t minutes);

}  // namespace tessera::plan::detail
