#pragma once

#include <exception>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Whether the stacks of LibTorch's errors are wanted: TESSERA_BACKTRACE=1.
bool wants_backtrace();

/// What an error says to people: without the stack that LibTorch appends, unless it is wanted, and
/// with the lack of memory or threads in words that say what to do.
std::string error_words(const std::exception& error);

}  // namespace tessera
