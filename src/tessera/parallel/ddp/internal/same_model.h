#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/parallel/ddp/ddp.h"

namespace tessera::ddp::detail {

/// **Collective.** Refuses, in the same words on all ranks, tensors that a rank cannot reduce, and
/// models and options that are not the same on every rank.
void check_same_model(const DdpTensors& tensors, const DdpOptions& options, const Group& group);

/// **Collective.** Rank 0's values on all ranks, in few messages.
void take_values_of_first(std::span<const Parameter> tensors, const Group& group);

}  // namespace tessera::ddp::detail
