#include "tessera/base/wrap.h"

#include <algorithm>
#include <utility>

#include "tessera/base/text.h"

namespace tessera {
namespace {

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

}  // namespace

size_t length_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, begins_character));
}

std::string_view first_characters(std::string_view text, size_t count) {
  size_t end = 0;
  for (size_t seen = 0; end < text.size(); ++end) {
    if (begins_character(text[end]) && seen++ == count) break;
  }
  return text.substr(0, end);
}

std::vector<std::string> wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  for (const std::string_view paragraph : split(text, '\n')) {
    std::string line;
    for (const std::string_view word : split(paragraph, ' ')) {
      if (!line.empty() && length_of(line) + 1 + length_of(word) > width) {
        lines.push_back(std::exchange(line, ""));
      }
      line += concat(line.empty() ? "" : " ", word);
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace tessera
