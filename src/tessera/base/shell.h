#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The text as one word of a POSIX shell command, quoted if necessary, so that users can copy and
/// paste it.
std::string shell_word(std::string_view text);

/// The words as a command line.
std::string shell_command(std::span<const std::string> words);

}  // namespace tessera
