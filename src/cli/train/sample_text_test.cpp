#include "cli/train/sample_text.h"

#include <gtest/gtest.h>

namespace tessera::cli {
namespace {

TEST(SampleText, PromptsAreTheFirstWordsOfALine) {
  EXPECT_EQ(choose_prompt("half a line of it\nshort\n  The ranks of a grid form groups, and\n"),
            "The ranks of a grid form");
  EXPECT_EQ(choose_prompt("x\nconst std::vector<std::string_view>& names_of_all_the_groups = x;\n"),
            "const std::vector<std::string_view>&");
  EXPECT_EQ(choose_prompt(""), "");
  EXPECT_EQ(choose_prompt("one line of words without an end"), "");
  EXPECT_EQ(
      choose_prompt("a\nwords \x1b[31m in a colour of theirs\nPlain words of the next line\n"),
      "Plain words of the next");
}

TEST(SampleText, LinesFitTheTerminal) {
  const std::string drawn =
      draw_sample("The", " r\u00e4nks form groups, and groups form\nmeshes\x1b", {.width = 22});
  EXPECT_EQ(drawn,
            "  The r\u00e4nks form group\n"
            "  s, and groups form\n"
            "  meshes\\x1b\n");
}

TEST(SampleText, ThePromptIsFaint) {
  const TerminalOptions options{.width = 80, .color = ColorMode::k256};
  EXPECT_EQ(draw_sample("The", " rank", options), "  " + faint("The", ColorMode::k256) + " rank\n");
  EXPECT_EQ(draw_sample("The", "", options), "  " + faint("The", ColorMode::k256) + "\n");
}

}  // namespace
}  // namespace tessera::cli
