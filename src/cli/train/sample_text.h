#pragma once

#include <string>
#include <string_view>

#include "tessera/base/color.h"

namespace tessera::cli {

/// The first words of a line of the text, for a model to continue; "" if it has no words. The text
/// may begin and end in the middle of a line.
std::string choose_prompt(std::string_view text);

/// The prompt, faint, and what a model has written after it: lines of at most options.width
/// characters, indented.
std::string draw_sample(const std::string& prompt, const std::string& more,
                        const TerminalOptions& options);

}  // namespace tessera::cli
