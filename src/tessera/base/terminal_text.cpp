#include "tessera/base/terminal_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "tessera/base/text.h"

namespace tessera {
namespace {

using Byte = unsigned char;

/// The first character of a text; 0 bytes long if it is not UTF-8.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

bool continues(std::string_view text, size_t count) {
  return text.size() > count && std::ranges::all_of(text.substr(1, count), [](char c) {
           return (static_cast<Byte>(c) & 0xC0) == 0x80;
         });
}

Character first_character(std::string_view text) {
  const auto first = static_cast<Byte>(text[0]);
  if (first < 0x80) return {first, 1};
  const size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC0 || first > 0xF7 || !continues(text, more)) return {};
  uint32_t code = first & (0x3FU >> more);
  for (size_t i = 1; i <= more; ++i) code = code << 6 | (static_cast<Byte>(text[i]) & 0x3FU);
  constexpr std::array<uint32_t, 4> kLeast{0, 0x80, 0x800, 0x10000};  // Overlong forms are invalid.
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast.at(more) || code > 0x10FFFF || surrogate) return {};
  return {code, more + 1};
}

bool is_unseen(uint32_t code) {
  const auto within = [code](uint32_t first, uint32_t last) {
    return first <= code && code <= last;
  };
  return within(0, 0x1F) || within(0x7F, 0x9F) || within(0x200B, 0x200F) ||
         within(0x2028, 0x202E) || within(0x2060, 0x2069) || code == 0xFEFF;
}

std::string as_bytes(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<Byte>(c);
    escaped += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xF]};
  }
  return escaped;
}

/// Each character as `show` returns it; if that is nothing, or for invalid bytes, its escaped
/// bytes.
template <class Show>
std::string each_character(std::string_view text, const Show& show) {
  std::string shown;
  while (!text.empty()) {
    const Character next = first_character(text);
    const std::string_view bytes = text.substr(0, std::max<size_t>(1, next.bytes));
    const std::string sign = next.bytes == 0 ? "" : show(next.code, bytes);
    shown += sign.empty() ? as_bytes(bytes) : sign;
    text.remove_prefix(bytes.size());
  }
  return shown;
}

// Dots above the middle of the line, below it, or both.
std::string braille(uint32_t code) {
  constexpr uint32_t kUpper = 0x1B;
  const bool upper = (code & kUpper) != 0;
  const bool lower = (code & 0xFF & ~kUpper) != 0;
  return upper ? (lower ? ":" : "'") : ".";
}

std::string ascii_sign(uint32_t code) {
  constexpr std::array<std::pair<uint32_t, std::string_view>, 28> kSigns{{
      {U'·', "."},  {U'…', "..."}, {U'×', "x"}, {U'−', "-"},  {U'²', "^2"}, {U'→', "->"},
      {U'≤', "<="}, {U'≥', ">="},  {U'–', "-"}, {U'«', "\""}, {U'»', "\""}, {U'─', "-"},
      {U'│', "|"},  {U'┤', "|"},   {U'└', "+"}, {U'┬', "+"},  {U'█', "#"},  {U'▉', "#"},
      {U'▊', "#"},  {U'▋', "#"},   {U'▌', "="}, {U'▍', "-"},  {U'▎', "-"},  {U'▏', "|"},
      {U'░', "."},  {U'●', "o"},   {U'◆', "*"}, {U'▲', "^"},
  }};
  if (code < 0x80) return {static_cast<char>(code)};
  if (code >= 0x2800 && code <= 0x28FF) return braille(code);
  const auto* found = std::ranges::find(kSigns, code, &decltype(kSigns)::value_type::first);
  return found == kSigns.end() ? "" : std::string(found->second);
}

}  // namespace

std::string visible(std::string_view text) {
  return each_character(text, [](uint32_t code, std::string_view bytes) {
    return is_unseen(code) ? "" : std::string(bytes);
  });
}

std::string visible_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) lines.push_back(visible(line));
  return join(lines, "\n");
}

std::string visible_text(std::string_view text) {
  return each_character(text, [](uint32_t code, std::string_view bytes) {
    const bool is_wanted = code == '\n' || code == '\t' || code == 0x200C || code == 0x200D;
    return is_unseen(code) && !is_wanted ? "" : std::string(bytes);
  });
}

std::string to_ascii(std::string_view text) {
  return each_character(text, [](uint32_t code, std::string_view) { return ascii_sign(code); });
}

bool speaks_utf8(const Environment& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = to_lower(environment(name).value_or(""));
    if (locale.empty()) continue;
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return true;
}

}  // namespace tessera
