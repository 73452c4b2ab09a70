#pragma once

#include <vector>

#include "tessera/schedule/internal/search_dispatch.h"

namespace tessera::schedule::detail {

/// Patterns in which microbatches follow each other: the `most` ones that come nearest to the
/// memory limit. Every microbatch passes the stages at the same pace, one interval after the
/// previous one, with room for W.
std::vector<TargetTimes> follow_patterns(const SearchProblem& problem, size_t most);

}  // namespace tessera::schedule::detail
