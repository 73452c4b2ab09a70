#include "tessera/base/terminal_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace tessera {
namespace {

TEST(TerminalText, WhatCanBeSeenStays) {
  for (const char* text : {"", "model.norm.weight", "größe/重み", "a\\b \"c\"", "😀"}) {
    EXPECT_EQ(visible(text), text);
  }
}

TEST(TerminalText, ControlsAndBrokenBytesAreSpelt) {
  EXPECT_EQ(visible("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(visible(std::string_view("\0\r\n\t\x7f", 5)), "\\x00\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(visible("\xc2\x9b"
                    "31m"),
            "\\xc2\\x9b31m");                                     // A C1 control.
  EXPECT_EQ(visible("x\xe2\x80\xaetxt"), "x\\xe2\\x80\\xaetxt");  // Right to left.
  EXPECT_EQ(visible("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(visible("\xc0\xaf"), "\\xc0\\xaf");                    // An overlong form.
  EXPECT_EQ(visible("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // A UTF-16 surrogate.
  EXPECT_EQ(visible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // Beyond Unicode.
  EXPECT_EQ(visible_lines("a\x1b\nb\n"), "a\\x1b\nb\n");
}

TEST(TerminalText, WordsKeepTabsAndJoiners) {
  const std::string words = "all:\n\tcc \U0001f469\u200d\U0001f4bb";
  EXPECT_EQ(visible_text(words), words);
  EXPECT_EQ(visible_text("a\x1b[2Jb\r\xff"), "a\\x1b[2Jb\\x0d\\xff");
}

TEST(TerminalText, AnyBytesBecomeAscii) {
  EXPECT_EQ(to_ascii("3 × 2, 0,8,…,24"), "3 x 2, 0,8,...,24");
  EXPECT_EQ(to_ascii("\x1b[1mbold\x1b[0m\n"), "\x1b[1mbold\x1b[0m\n");
  EXPECT_EQ(to_ascii("█▌░│┤└┬─"), "#=.||++-");
  EXPECT_EQ(to_ascii("⠉⠒⣀⡇"), "''.:");
  EXPECT_EQ(to_ascii("é\xff"), "\\xc3\\xa9\\xff");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += {static_cast<char>(byte), 'x'};
  EXPECT_TRUE(std::ranges::all_of(to_ascii(all), [](char c) { return c >= 0; }));
}

TEST(TerminalText, TheLocaleSaysWhetherItIsUtf8) {
  const auto speaks = [](const std::map<std::string, std::string>& variables) {
    return speaks_utf8([&](const std::string& name) -> std::optional<std::string> {
      const auto at = variables.find(name);
      return at == variables.end() ? std::nullopt : std::optional(at->second);
    });
  };
  EXPECT_TRUE(speaks({}));
  EXPECT_TRUE(speaks({{"LANG", "en_GB.UTF-8"}}));
  EXPECT_TRUE(speaks({{"LC_ALL", ""}, {"LANG", "C.utf8"}}));
  EXPECT_FALSE(speaks({{"LANG", "C"}}));
  EXPECT_FALSE(speaks({{"LANG", "de_DE.ISO-8859-1"}}));
  EXPECT_FALSE(speaks({{"LC_ALL", "C"}, {"LANG", "en_GB.UTF-8"}}));
  EXPECT_TRUE(speaks({{"LC_CTYPE", "C.UTF-8"}, {"LANG", "C"}}));
}

}  // namespace
}  // namespace tessera
