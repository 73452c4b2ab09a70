#include "tessera/base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

namespace tessera {
namespace {

// Levenshtein distance, one row at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    pieces.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  // Up to a third of the word may be wrong: "rnak" finds "rank", "frobnicate" finds nothing.
  size_t best = (word.size() + 2) / 3 + 1;
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto found = nearest(word, candidates);
  return found ? concat("; did you mean '", *found, "'?") : "";
}

std::optional<int64_t> to_integer(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end ? std::optional(value) : std::nullopt;
}

std::string with_thousands(int64_t number) {
  std::string digits = std::to_string(number);
  const int first_digit = number < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first_digit; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

}  // namespace tessera
