#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Characters of UTF-8 text, not bytes.
size_t length_of(std::string_view text);

/// The first `count` characters.
std::string_view first_characters(std::string_view text, size_t count);

/// Lines of at most `width` characters, broken at spaces; a longer word stays whole.
std::vector<std::string> wrap(std::string_view text, size_t width);

}  // namespace tessera
