#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// All parts printed one after another.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// The elements printed with `separator` between them.
template <class Range>
std::string join(const Range& elements, std::string_view separator) {
  std::ostringstream out;
  std::string_view between;
  for (const auto& element : elements) {
    out << between << element;
    between = separator;
  }
  return std::move(out).str();
}

/// The pieces between separators; an empty text is one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);

/// `text` with ASCII letters in lower case.
std::string to_lower(std::string_view text);

/// The candidate most similar to `word`, if one is near enough.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'x'?" for the nearest candidate, otherwise "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// The whole text as a decimal 64-bit integer; nothing if it is not one.
std::optional<int64_t> to_integer(std::string_view text);

/// 1048576 as "1,048,576".
std::string with_thousands(int64_t number);

}  // namespace tessera
