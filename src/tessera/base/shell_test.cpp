#include "tessera/base/shell.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <vector>

namespace tessera {
namespace {

// The words into which a shell splits a command line, one per line.
std::string read_by_shell(const std::string& words) {
  FILE* const shell = popen(("printf '%s\\n' " + words).c_str(), "r");
  std::string text;
  std::array<char, 256> bytes{};
  while (const size_t length = fread(bytes.data(), 1, bytes.size(), shell)) {
    text.append(bytes.data(), length);
  }
  pclose(shell);
  return text;
}

TEST(Shell, PlainWordsStayPlain) {
  for (const char* word : {"runs/1", "--lr=1e-3", "a,b", "größe", "3.5", "a~"}) {
    EXPECT_EQ(shell_word(word), word);
  }
}

TEST(Shell, AShellReadsBackEveryWord) {
  const std::vector<std::string> words{"my run", "it's",  "$HOME", "a\"b", "*.txt", "~",
                                       "`id`",   "a;b",   "a\\b",  "!x",   "[a]?",  "<in>",
                                       "#1",     "{a,b}", "&",     "(x)",  "größe"};
  for (const std::string& word : words) EXPECT_EQ(read_by_shell(shell_word(word)), word + "\n");
  std::string lines;
  for (const std::string& word : words) lines += word + "\n";
  EXPECT_EQ(read_by_shell(shell_command(words)), lines);
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace tessera
