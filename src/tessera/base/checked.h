#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// a·b; ConfigError naming `what` if it overflows int64_t.
int64_t checked_multiply(int64_t a, int64_t b, std::string_view what);

/// a + b; ConfigError naming `what` if it overflows int64_t.
int64_t checked_add(int64_t a, int64_t b, std::string_view what);

/// The product of all factors, 1 for none; ConfigError naming `what` if it overflows int64_t.
int64_t checked_product(std::span<const int64_t> factors, std::string_view what);

/// The whole text as a number; ConfigError naming `what`, e.g. a flag, if it is not one.
int64_t checked_integer(std::string_view text, std::string_view what);

}  // namespace tessera
