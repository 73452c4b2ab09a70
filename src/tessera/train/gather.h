#pragma once

#include <functional>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// **Collective** over a norm group of the plan. On its first rank, calls `write` with a source of
/// full parameters. `write` must get each of `whole` from it, in order; each is gathered from the
/// ranks' parts, one at a time. `own` are this rank's parameters.
void gather_parameters(const Parameters& own, const Parameters& whole, const Group& group,
                       const std::function<void(const ParameterSource&)>& write);

}  // namespace tessera
