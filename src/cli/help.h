#pragma once

#include <cstddef>
#include <string>

namespace tessera::cli {

/// The column where CLI11's help begins to say what a flag does.
inline constexpr size_t kHelpColumn = 34;

/// CLI11's help in lines of at most `width` characters. What a flag does stays in its column.
std::string folded_help(const std::string& help, size_t width);

}  // namespace tessera::cli
