#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera {
namespace olmo TSR_API {

/// The variables that OLMo-core sets on the hosts of its own clusters, detected by
/// BEAKER_NODE_HOSTNAME; empty elsewhere.
std::vector<std::pair<std::string, std::string>> cluster_variables(
    std::chrono::milliseconds timeout);

}  // namespace olmo
}  // namespace tessera
