#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/draw/color.h"

namespace tessera::cli {

/// What stdout can show. `choice` is auto, always or never; auto asks the terminal and NO_COLOR.
ColorMode color_mode(std::string_view choice);

/// Characters in a line of stdout; 120 where it is no terminal.
int64_t terminal_width();

}  // namespace tessera::cli
