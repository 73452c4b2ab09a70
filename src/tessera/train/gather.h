#pragma once

#include <functional>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// **Collective** among the ranks of a norm group of the plan. On its first rank calls `write` with
/// a source of whole parameters, which it must ask for each of `whole`, in their order: each is put
/// together from the parts that count, one at a time. `own` is what this rank holds.
void gather_parameters(const Parameters& own, const Parameters& whole, const Group& group,
                       const std::function<void(const ParameterSource&)>& write);

}  // namespace tessera
