#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// Moves the values of parameters on a GPU into one block of memory per dtype, in their order, so
/// that layers can multiply by neighbouring matrices at once. Parameters without memory, and those
/// on a CPU, stay where they are.
void place_together(const Parameters& parameters);

}  // namespace tessera
