#include "cli/train/sample_text.h"

#include <algorithm>
#include <vector>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera::cli {
namespace {

constexpr std::string_view kIndent = "  ";
constexpr size_t kPromptBytes = 24;  // About five words.
constexpr size_t kLeastBytes = 8;

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

std::string_view trimmed(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
}

// Whole words of the line's beginning.
std::string first_words(std::string_view line) {
  size_t end = line.find(' ', std::min(kPromptBytes, line.size()));
  if (end == std::string_view::npos || end > 2 * kPromptBytes) end = line.rfind(' ', kPromptBytes);
  const std::string_view words = trimmed(line.substr(0, end));
  return std::string(words.size() <= 2 * kPromptBytes ? words : "");
}

// Words that a terminal shows and a user can type: without U+FFFD, too.
bool is_plain(std::string_view words) {
  return visible(words) == words && words.find("\xEF\xBF\xBD") == std::string_view::npos;
}

/// Characters of several bytes stay whole.
std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> characters;
  for (const char c : text) {
    if (characters.empty() || !is_continuation(c)) characters.emplace_back();
    characters.back() += c;
  }
  return characters;
}

}  // namespace

std::string choose_prompt(std::string_view text) {
  for (const std::string_view part :
       split(text.substr(std::min(text.size(), text.find('\n'))), '\n')) {
    const std::string_view line = trimmed(part.substr(0, part.find('\0')));
    if (line.size() < kPromptBytes) continue;
    const std::string words = first_words(line);
    if (words.size() >= kLeastBytes && is_plain(words)) return words;
  }
  return "";
}

std::string draw_sample(const std::string& prompt, const std::string& more,
                        const TerminalOptions& options) {
  const std::string begin = visible_lines(prompt);
  const size_t given = characters_of(begin).size();
  const size_t room = static_cast<size_t>(std::max<int64_t>(options.width, 20)) - kIndent.size();
  std::string drawn(kIndent);
  std::string part;  // Of this line and one style.
  size_t count = 0;
  size_t column = 0;
  const auto end_part = [&] {
    if (part.empty()) return;
    drawn += count <= given ? faint(part, options.color) : part;
    part.clear();
  };
  const auto end_line = [&] {
    end_part();
    drawn += concat("\n", kIndent);
    column = 0;
  };
  for (const std::string& character : characters_of(begin + visible_lines(more))) {
    if (count == given) end_part();
    ++count;
    if (character == "\n") {
      end_line();
      continue;
    }
    if (column == room) end_line();
    part += character;
    ++column;
  }
  end_part();
  return drawn + "\n";
}

}  // namespace tessera::cli
