#pragma once

#include <exception>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Whether to show the stacks of LibTorch's errors: TESSERA_BACKTRACE=1.
bool wants_backtrace();

/// The message of an error for users: without the stack that LibTorch appends, unless it is wanted,
/// and with advice if memory or threads run out.
std::string error_words(const std::exception& error);

}  // namespace tessera
