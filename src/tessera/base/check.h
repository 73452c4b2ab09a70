#pragma once

#include "tessera/base/error.h"
#include "tessera/base/text.h"

/// Checks a value chosen by the caller: otherwise throws ConfigError with the concatenated parts.
#define TSR_CHECK(condition, ...) \
  ((condition) ? void(0) : throw ::tessera::ConfigError(::tessera::concat(__VA_ARGS__)))

/// Checks a condition that only a bug in Tessera can break: otherwise throws InternalError.
#define TSR_ASSERT(condition, ...)                                                                 \
  ((condition) ? void(0)                                                                           \
               : throw ::tessera::InternalError(::tessera::concat(                                 \
                     __FILE__, ":", __LINE__, ": please report this bug of Tessera: ", #condition, \
                     " does not hold; ", __VA_ARGS__)))
