#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/launch/options.h"

namespace tessera::cli {

/// Ranks that run a verb of this program again, with the same arguments and their rank in the
/// environment. Rank 0 has the terminal.
LaunchOptions verb_ranks(const std::string& verb, int64_t nproc,
                         const std::vector<std::string>& arguments);

}  // namespace tessera::cli
