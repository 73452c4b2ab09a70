#include "tessera/base/wrap.h"

#include <algorithm>
#include <utility>

#include "tessera/base/text.h"

namespace tessera {

size_t length_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
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
