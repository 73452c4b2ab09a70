#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// Moves the values of parameters into blocks of memory, in their order, so that layers can
/// multiply by neighbouring matrices at once: one block for all matrices of a dtype, one for all
/// vectors. Parameters without memory stay where they are.
void place_together(const Parameters& parameters);

}  // namespace tessera
