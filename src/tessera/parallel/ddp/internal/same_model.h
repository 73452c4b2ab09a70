#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/parallel/ddp/ddp.h"

namespace tessera::ddp::detail {

/// **Collective.** ConfigError, the same on all ranks, if a rank cannot reduce a tensor, or if the
/// models or options differ between the ranks.
void check_same_model(const DdpTensors& tensors, const DdpOptions& options, const Group& group);

/// **Collective.** Copies rank 0's values to all ranks, in few broadcasts.
void take_values_of_first(std::span<const Parameter> tensors, const Group& group);

}  // namespace tessera::ddp::detail
