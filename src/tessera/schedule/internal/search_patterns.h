#pragma once

#include <vector>

#include "tessera/schedule/internal/search_dispatch.h"

namespace tessera::schedule::detail {

/// Ways to let microbatches follow each other, at most `most`: those that come nearest to
/// the memory limit. Every microbatch passes the stages at the same pace, the interval behind the
/// one before, with places left free for W.
std::vector<WishedTimes> follow_patterns(const SearchProblem& problem, size_t most);

}  // namespace tessera::schedule::detail
