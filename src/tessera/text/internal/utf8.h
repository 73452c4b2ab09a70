#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::text::detail {

/// The number of bytes of the character that begins with `first`, in valid UTF-8.
constexpr size_t width_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xe0) return 2;
  return byte < 0xf0 ? 3 : 4;
}

/// The character at the beginning of a valid text that is not empty.
char32_t first_character(std::string_view text);
/// The character at its end.
char32_t last_character(std::string_view text);
void append_character(std::string& text, char32_t character);

/// The offset of the first byte that is not part of valid UTF-8; nothing if all are.
std::optional<size_t> find_invalid(std::string_view text);
/// The text with one U+FFFD for each longest part that could begin a character, and for each other
/// byte that cannot.
std::string repaired(std::string_view bytes);
/// The length of an incomplete character at the end, which later bytes may complete; 0 for none.
size_t incomplete_tail(std::string_view bytes);

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD.

}  // namespace tessera::text::detail
