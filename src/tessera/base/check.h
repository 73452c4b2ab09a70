#pragma once

#include "tessera/base/error.h"
#include "tessera/base/text.h"

/// Refuses a value that the caller chose: throws ConfigError with the concatenated parts.
#define TSR_CHECK(condition, ...) \
  ((condition) ? void(0) : throw ::tessera::ConfigError(::tessera::concat(__VA_ARGS__)))

/// Refuses a state that only a bug of ours can reach: throws InternalError with the place.
#define TSR_ASSERT(condition, ...)                                                                 \
  ((condition) ? void(0)                                                                           \
               : throw ::tessera::InternalError(::tessera::concat(                                 \
                     __FILE__, ":", __LINE__, ": please report this bug of Tessera: ", #condition, \
                     " does not hold; ", __VA_ARGS__)))
