#include "tessera/base/shell.h"

#include <vector>

#include "tessera/base/text.h"

namespace tessera {
namespace {

// Non-ASCII letters are ordinary to a shell; a tilde is special only at the start.
bool is_plain(char c) {
  constexpr std::string_view kPlain = "-_=+:,./@%^~";
  const auto byte = static_cast<unsigned char>(c);
  const bool alphanumeric =
      (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return alphanumeric || byte >= 0x80 || kPlain.find(c) != std::string_view::npos;
}

bool needs_quotes(std::string_view text) {
  if (text.empty() || text.starts_with('~')) return true;
  for (const char c : text) {
    if (!is_plain(c)) return true;
  }
  return false;
}

}  // namespace

std::string shell_word(std::string_view text) {
  if (!needs_quotes(text)) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += R"('\'')";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string shell_command(std::span<const std::string> words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return join(quoted, " ");
}

}  // namespace tessera
