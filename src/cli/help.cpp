#include "cli/help.h"

#include <algorithm>
#include <string_view>

#include "tessera/base/text.h"
#include "tessera/base/wrap.h"

namespace tessera::cli {
namespace {

constexpr size_t kNarrowest = 24;  // What a flag does is never narrower.

/// A line of the help: flags, and what they do. Either may be empty.
struct HelpLine {
  std::string_view flags;
  std::string_view words;
};

// "  --flag TYPE      words", or words alone, below a long flag. Other lines are words in column 0.
HelpLine parts_of(std::string_view line) {
  const size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos || begin < 2) return {"", line};
  if (begin >= kHelpColumn) return {line.substr(0, 1), line.substr(begin)};
  const bool fits = line.size() > kHelpColumn && line[kHelpColumn - 1] == ' ';
  const size_t gap = std::min(line.find("  ", begin), fits ? kHelpColumn - 1 : line.size());
  const size_t words = line.find_first_not_of(' ', gap);
  if (words == std::string_view::npos) return {line.substr(0, gap), ""};
  return {line.substr(0, gap), line.substr(words)};
}

std::string padded(std::string_view text) {
  const size_t length = length_of(text);
  return concat(text, std::string(length < kHelpColumn ? kHelpColumn - length : 1, ' '));
}

}  // namespace

std::string folded_help(const std::string& help, size_t width) {
  std::string text;
  for (const std::string_view line :
       split(std::string_view(help).substr(0, help.size() - 1), '\n')) {
    const auto [flags, words] = parts_of(line);
    if (words.empty()) {
      text += concat(flags, "\n");
      continue;
    }
    const size_t column = flags.empty() ? 0 : kHelpColumn;
    std::string begin = flags.empty() ? "" : padded(flags);
    for (const std::string& piece : wrap(words, std::max(width, column + kNarrowest) - column)) {
      text += concat(begin, piece, "\n");
      begin = std::string(column, ' ');
    }
  }
  return text;
}

}  // namespace tessera::cli
