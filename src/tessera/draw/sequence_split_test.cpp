#include "tessera/draw/sequence_split.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

const TerminalOptions kPlain{.width = 80};

TEST(SequenceSplit, ShowsEachRanksPositionsAndPairs) {
  EXPECT_EQ(draw_terminal(make_sequence_split("head-tail", {16}, 2), kPlain),
            "sequence of 16 tokens over cp 2, head-tail\n"
            "cp 0  ████········████  68 pairs\n"
            "cp 1  ····████████····  68 pairs\n"
            "all ranks compute 68 pairs of causal attention\n\n");
  EXPECT_EQ(draw_terminal(make_sequence_split("contiguous", {8, 8}, 2), kPlain),
            "sequence of 16 tokens over cp 2, contiguous, 2 documents\n"
            "cp 0  ████████········  36 pairs\n"
            "cp 1  ········████████  36 pairs\n"
            "all ranks compute 36 pairs of causal attention\n\n");
}

TEST(SequenceSplit, SaysHowFarTheBusiestRankIsAboveTheMean) {
  EXPECT_EQ(balance_text(make_sequence_split("per-document", {3000, 700, 1200, 3292}, 8)),
            "rank 0 of the cp group computes 0.26 % more causal pairs than the mean");
  EXPECT_EQ(balance_text(make_sequence_split("contiguous", {8}, 2)),
            "rank 1 of the cp group computes 44 % more causal pairs than the mean");
}

TEST(SequenceSplit, ShowsTheFirstPositionsOfManyRuns) {
  const SequenceSplit split = make_sequence_split("striped", {4096}, 2);
  EXPECT_EQ(split.shown(), 32);
  const std::string text = draw_terminal(split, kPlain);
  EXPECT_NE(text.find("; the first 32 are shown\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cp 1  ·█·█"), std::string::npos) << text;
}

TEST(SequenceSplit, ACharacterIsFullIfMostOfItIsHeld) {
  const TerminalOptions narrow{.width = 20};  // Sixteen characters for 1,200 positions.
  const std::string text = draw_terminal(make_sequence_split("contiguous", {1200}, 3), narrow);
  EXPECT_NE(text.find("cp 0  █████▒··········  "), std::string::npos) << text;
  EXPECT_NE(text.find("cp 1  ·····██████·····  "), std::string::npos) << text;
  EXPECT_NE(text.find("cp 2  ··········▒█████  "), std::string::npos) << text;
}

TEST(SequenceSplit, FitsLongSequencesIntoTheTerminal) {
  for (const std::string& name : context_layouts()) {
    const std::string text = draw_terminal(make_sequence_split(name, {3000, 6216}, 48), kPlain);
    EXPECT_NE(text.find("cp 47 "), std::string::npos);
  }
  const std::string many = draw_terminal(make_sequence_split("head-tail", {4096}, 128), kPlain);
  EXPECT_EQ(many.find("cp 1 "), std::string::npos) << "too many rows";
  EXPECT_NE(many.find("all ranks compute"), std::string::npos);
}

}  // namespace
}  // namespace tessera
