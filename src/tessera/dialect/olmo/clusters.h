#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera {
namespace olmo TSR_API {

/// The variables that the page sets on the hosts of its own clusters, told by BEAKER_NODE_HOSTNAME;
/// none elsewhere.
std::vector<std::pair<std::string, std::string>> cluster_variables(
    std::chrono::milliseconds timeout);

}  // namespace olmo
}  // namespace tessera
