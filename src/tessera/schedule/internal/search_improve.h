#pragma once

#include <vector>

#include "tessera/schedule/internal/search_timer.h"

namespace tessera::detail {

/// Makes an order better by moving single tasks along their rows, where they lie on the chain of
/// tasks that makes the longest rank long, until no such move helps or `attempts` were timed.
/// The order fits the limit and goes on fitting it.
Score improve(TaskOrder& order, const SearchProblem& problem, OrderTimer& timer, int64_t attempts);

}  // namespace tessera::detail
