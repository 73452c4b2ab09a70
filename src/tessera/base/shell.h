#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The text as one word of a POSIX shell's command line: in quotes where the shell would read it
/// otherwise. What is printed this way can be copied and pasted.
std::string shell_word(std::string_view text);

/// The words as a command line.
std::string shell_command(std::span<const std::string> words);

}  // namespace tessera
