#pragma once

#include <vector>

#include "tessera/plan/megatron/plan.h"
#include "tessera/plan/nccl_options.h"

namespace tessera::megatron::detail {

/// A configuration that was checked.
struct CheckedMegatron {
  const MegatronConfig& config;
  Layout decoder;
  Layout expert;
  NcclConfig nccl;
};

/// The specs of a checked configuration, in Megatron's order of creation.
std::vector<GroupSpec> megatron_specs(const CheckedMegatron& checked);

}  // namespace tessera::megatron::detail
