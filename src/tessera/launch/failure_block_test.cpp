#include "tessera/launch/failure_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

FailureBlock sample() {
  return {.failure = {.host = "gpu07",
                      .rank = GlobalRank{2},
                      .signal = SIGSEGV,
                      .message = "hidden_size 7 is not divisible by tp degree 2; choose tp from 1, "
                                 "7, or change the model",
                      .tail_name = "stderr",
                      .tail = {"loading", "step 1"}},
          .verdict = {.max_restarts = 3, .healthy = false},
          .others = {{GlobalRank{0}, SIGTERM, SIGTERM},
                     {GlobalRank{1}, SIGTERM, SIGTERM},
                     {GlobalRank{3}, SIGKILL, SIGKILL},
                     {GlobalRank{4}, 1 << 8, 0}}};
}

std::string rule(size_t width) {
  std::string text;
  for (size_t i = 0; i < width; ++i) text += "─";
  return text + "\n";
}

TEST(FailureBlock, SaysAllInOnePiece) {
  const std::string head = "── tessera run: the job failed ";
  EXPECT_EQ(sample().to_string(80, ColorMode::kNone),
            concat(head, rule(49),
                   "  rank 2 on host gpu07 was killed by SIGSEGV (Segmentation fault)\n"
                   "\n"
                   "    hidden_size 7 is not divisible by tp degree 2; choose tp from 1, 7, or\n"
                   "    change the model\n"
                   "\n"
                   "  the last lines of its stderr\n"
                   "    │ loading\n"
                   "    │ step 1\n"
                   "\n"
                   "  the other ranks\n"
                   "    ranks 0,1  stopped with SIGTERM\n"
                   "    rank 3     killed with SIGKILL, 5 s after SIGTERM\n"
                   "    rank 4     ended with exit code 1\n"
                   "\n"
                   "  No restart: the job failed before all ranks had connected.\n",
                   rule(80)));
}

TEST(FailureBlock, SaysNothingTwice) {
  FailureBlock block = sample();
  block.failure.tail = {"loading", block.failure.message, block.failure.message.substr(0, 62) + "…",
                        block.failure.message.substr(0, 10)};
  const std::string text = block.to_string(80, ColorMode::kNone);
  EXPECT_NE(text.find("    │ loading\n    │ hidden_siz\n\n"), std::string::npos) << text;
  block.failure.tail = {block.failure.message, "  what():  " + block.failure.message};
  EXPECT_EQ(block.to_string(80, ColorMode::kNone).find("the last lines"), std::string::npos);
}

TEST(FailureBlock, FitsTheWidth) {
  FailureBlock block = sample();
  block.failure.tail.push_back(concat(std::string(300, 'x'), "ä"));
  for (const int64_t width : {40, 80, 120, 500}) {
    const std::string text = block.to_string(width, ColorMode::kNone);
    for (const std::string_view line : split(text, '\n')) {
      const auto length = std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
      EXPECT_LE(length, std::max<int64_t>(std::min<int64_t>(width, 120), 66)) << line;
    }
  }
}

// Names and output of ranks and other hosts must not send control characters to the terminal.
TEST(FailureBlock, EscapesWhatCannotBeSeen) {
  FailureBlock block = sample();
  block.failure.host = "gpu\x1b[31m";
  block.failure.message = "cannot open a\xff\nb\xe2\x80\xaetxt";
  block.failure.tail = {"tab\there",
                        "c\xc2\x9b"
                        "31m"};
  block.logs = "logs\x07";
  const std::string text = block.to_string(80, ColorMode::kNone);
  EXPECT_EQ(visible_lines(text), text);
  for (const char* shown :
       {"host gpu\\x1b[31m", "    cannot open a\\xff\n", "    b\\xe2\\x80\\xaetxt\n",
        "│ tab    here\n", "│ c\\xc2\\x9b31m\n", "logs: logs\\x07\n"}) {
    EXPECT_NE(text.find(shown), std::string::npos) << shown << " is missing:\n" << text;
  }
}

TEST(FailureBlock, SaysWhatComesNext) {
  FailureBlock block = sample();
  block.verdict = {.restart = 2, .max_restarts = 3};
  EXPECT_NE(block.to_string(80, ColorMode::kNone).find("Restarting all ranks: restart 2 of 3."),
            std::string::npos);
  block.verdict = {.max_restarts = 3};
  EXPECT_NE(block.to_string(80, ColorMode::kNone).find("No restarts left: 3 of 3 used."),
            std::string::npos);
  block.verdict = {};
  EXPECT_EQ(block.to_string(80, ColorMode::kNone).find("restart"), std::string::npos);
}

TEST(FailureBlock, NamesTheNode) {
  FailureBlock block = sample();
  block.nnodes = 2;
  block.failure.node = 1;
  EXPECT_NE(block.to_string(80, ColorMode::kNone).find("rank 2 of node 1 on host gpu07"),
            std::string::npos);
  block.failure.kind = Failure::Kind::kNodeLost;
  EXPECT_NE(block.to_string(80, ColorMode::kNone).find("node 1 on host gpu07 is lost"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
