#pragma once

#include <cstdint>
#include <string_view>

#include "tests/golden/golden.h"

namespace tessera::golden {

/// The value of a Python expression such as "7+rank", "2**40+1", "0.1" or "rank==1", with +, -, *,
/// **, ==, != and parentheses: a whole number, a double or a flag. UnknownName where it is anything
/// else.
Json evaluate(std::string_view expression, int64_t rank);

}  // namespace tessera::golden
