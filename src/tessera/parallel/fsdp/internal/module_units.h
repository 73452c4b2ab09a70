#pragma once

#include <string>
#include <vector>

#include "tessera/parallel/fsdp/fully_shard.h"
#include "tessera/tensor/parameter.h"

namespace tessera::fsdp::detail {

/// Parameters of a module that are gathered together.
struct ModuleUnit {
  std::string name;  // That of the module; "" for the parameters outside of all units.
  Parameters parameters = {};
};

/// The module's parameters by unit, each tensor once, units in the order of their parameters. Each
/// parameter belongs to the innermost unit. ConfigError for a pattern without a module.
std::vector<ModuleUnit> units_of(const torch::nn::Module& module, const FullyShardOptions& options);

}  // namespace tessera::fsdp::detail
