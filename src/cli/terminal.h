#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/draw/color.h"

namespace tessera::cli {

/// What stdout, or another descriptor, can show. `choice` is auto, always or never; auto asks the
/// terminal and NO_COLOR.
ColorMode color_mode(std::string_view choice, int descriptor = 1);

/// Characters in a line of stdout, or of another descriptor; 120 where it is no terminal.
int64_t terminal_width(int descriptor = 1);

}  // namespace tessera::cli
