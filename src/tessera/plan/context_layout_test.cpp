#include "tessera/plan/context_layout.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

TEST(ContextLayout, HeadTailGivesEachRankTwoChunks) {
  const ContextLayout layout = ContextLayout::head_tail(12, 3);
  EXPECT_EQ(layout.runs(0), (Runs{{0, 2}, {10, 12}}));
  EXPECT_EQ(layout.runs(1), (Runs{{2, 4}, {8, 10}}));
  EXPECT_EQ(layout.runs(2), (Runs{{4, 8}}));
  EXPECT_EQ(layout.positions(0), (std::vector<int64_t>{0, 1, 10, 11}));
  EXPECT_EQ(layout.restore(), (std::vector<int64_t>{0, 1, 4, 5, 8, 9, 10, 11, 6, 7, 2, 3}));
  EXPECT_EQ(layout.local_length(), 4);
  EXPECT_EQ(ContextLayout::head_tail(5, 1).runs(0), (Runs{{0, 5}})) << "one rank takes any length";
}

TEST(ContextLayout, ContiguousAndStriped) {
  EXPECT_EQ(ContextLayout::contiguous(6, 3).runs(1), (Runs{{2, 4}}));
  EXPECT_EQ(ContextLayout::striped(6, 3).positions(1), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(ContextLayout::striped(6, 1), ContextLayout::contiguous(6, 1));
}

TEST(ContextLayout, PerDocumentIsHeadTailOfEachDocument) {
  const ContextLayout layout = ContextLayout::per_document({4, 12}, 2);
  EXPECT_EQ(layout.positions(0), (std::vector<int64_t>{0, 3, 4, 5, 6, 13, 14, 15}));
  EXPECT_EQ(causal_pairs(layout, {4, 12}), (std::vector<int64_t>{44, 44}));
}

TEST(ContextLayout, PerDocumentDealsWhatIsLeftOfDocuments) {
  // Documents of 5, 2 and 1: positions 0 to 3 as chunks, then 4, 5, 6 and 7 as chunks.
  const ContextLayout layout = ContextLayout::per_document({5, 2, 1}, 2);
  EXPECT_EQ(layout.positions(0), (std::vector<int64_t>{0, 3, 4, 7}));
  EXPECT_EQ(layout.positions(1), (std::vector<int64_t>{1, 2, 5, 6}));
}

TEST(ContextLayout, SortedBlocksDealByCost) {
  const ContextLayout layout = ContextLayout::sorted_blocks({8, 16, 8}, 2, 2);
  EXPECT_EQ(layout.runs(0), (Runs{{4, 8}, {10, 14}, {16, 18}, {22, 28}}));
  EXPECT_EQ(ContextLayout::sorted_blocks({32}, 2), ContextLayout::sorted_blocks({32}, 2, 8));
  EXPECT_EQ(ContextLayout::sorted_blocks({4096}, 2), ContextLayout::sorted_blocks({4096}, 2, 128));
}

TEST(ContextLayout, BlockCostsCountKeyBlocks) {
  EXPECT_EQ(block_costs({{6}}, 2), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(block_costs({{3, 5}}, 2), (std::vector<int64_t>{1, 2, 2, 3})) << "block 1 starts in 0";
  EXPECT_EQ(block_costs({{16}, 5}, 4), (std::vector<int64_t>{1, 2, 2, 2}));
  EXPECT_EQ(block_costs({{16}, 6}, 4), (std::vector<int64_t>{1, 2, 3, 3}));
}

TEST(ContextLayout, BlocksAreDealtInSnakeOrder) {
  EXPECT_EQ(deal_blocks({5, 5, 5, 5, 5, 5}, 3),
            (std::vector<std::vector<int64_t>>{{0, 5}, {1, 4}, {2, 3}}));
}

TEST(ContextLayout, DividesTheLocalOrderOfEachRank) {
  const ContextLayout ring = ContextLayout::head_tail(16, 2);
  EXPECT_EQ(ring.divided(2).runs(1), (Runs{{12, 16}}));
  EXPECT_EQ(ring.divided(4).ranks(), 8);
  EXPECT_EQ(message_of<ConfigError>([&] { ring.divided(3); }),
            "the 8 positions of a rank do not divide into 3 equal pieces; choose a divisor");
}

TEST(ContextLayout, PairsOfAContiguousLayoutRise) {
  EXPECT_EQ(causal_pairs(ContextLayout::contiguous(8, 2), {8}), (std::vector<int64_t>{10, 26}));
  EXPECT_EQ(causal_pairs(ContextLayout::head_tail(8, 2), {8}), (std::vector<int64_t>{18, 18}));
  EXPECT_NE(message_of<ConfigError>([] {
              causal_pairs(ContextLayout::contiguous(8, 2), {4});
            }).find("documents have 4 positions, but the layout has 8"),
            std::string::npos);
}

TEST(ContextLayout, EveryNameMakesALayout) {
  for (const std::string& name : context_layouts()) {
    EXPECT_EQ(make_context_layout(name, {12, 4}, 2).length(), 16) << name;
    EXPECT_NO_THROW(check_context_layout(name, 16, 2)) << name;
    EXPECT_THROW(check_context_layout(name, 15, 2), ConfigError) << name;
  }
  EXPECT_EQ(message_of<ConfigError>([] { make_context_layout("head_tail", {8}, 2); }),
            "cp-layout is 'head_tail'; choose head-tail, contiguous, striped, per-document, "
            "sorted-blocks; did you mean 'head-tail'?");
}

TEST(ContextLayout, ErrorsNameTheNearestLegalLengths) {
  const auto message = [](const std::string& name, int64_t length, int64_t ranks) {
    return message_of<ConfigError>([&] { make_context_layout(name, {length}, ranks); });
  };
  EXPECT_EQ(message("head-tail", 10, 2),
            "the sequence length 10 is not a multiple of 2·cp = 4; nearest legal lengths: 8, 12");
  EXPECT_EQ(message("per-document", 3, 2),
            "the sequence length 3 is not a multiple of 2·cp = 4; nearest legal lengths: 4");
  EXPECT_EQ(message("sorted-blocks", 12, 4),
            "the sequence length 12 is not a multiple of 2·cp = 8; nearest legal lengths: 8, 16");
  EXPECT_EQ(message("contiguous", 10, 4),
            "the sequence length 10 is not a multiple of cp = 4; nearest legal lengths: 8, 12");
}

TEST(ContextLayout, NonsenseIsRefused) {
  const int64_t huge = int64_t{1} << 62;
  for (const std::string& name : context_layouts()) {
    for (const int64_t bad : {int64_t{0}, int64_t{-4}, huge}) {
      EXPECT_THROW(make_context_layout(name, {bad}, 2), ConfigError) << name << " " << bad;
      EXPECT_THROW(make_context_layout(name, {8}, bad), ConfigError) << name << " " << bad;
      EXPECT_THROW(check_context_layout(name, bad, 2), ConfigError) << name << " " << bad;
      EXPECT_THROW(check_context_layout(name, 8, bad), ConfigError) << name << " " << bad;
    }
    EXPECT_THROW(make_context_layout(name, {}, 2), ConfigError) << name;
    EXPECT_THROW(make_context_layout(name, {huge, huge, huge, huge}, 2), ConfigError) << name;
  }
  EXPECT_THROW(deal_blocks({1, 2, 3}, 2), ConfigError);
  EXPECT_THROW(deal_blocks({}, 2), ConfigError);
  EXPECT_THROW(block_costs({{8}}, 3), ConfigError);
  EXPECT_THROW(block_costs({{8}}, 0), ConfigError);
  EXPECT_THROW(block_costs({{8}, 0}, 2), ConfigError);
  EXPECT_THROW(ContextLayout::of_blocks({{huge}}, 2), ConfigError);
  EXPECT_THROW(ContextLayout::contiguous(4, 2).runs(2), ConfigError);
  EXPECT_THROW(ContextLayout::contiguous(4, 2).runs(-1), ConfigError);
}

TEST(ContextLayout, RunsMustHoldEachPositionOnce) {
  const auto message = [](std::vector<Runs> runs) {
    return message_of<ConfigError>([&] { ContextLayout layout(std::move(runs)); });
  };
  EXPECT_NE(message({{{0, 2}}, {{1, 3}}}).find("position 1 is on two ranks"), std::string::npos);
  EXPECT_NE(message({{{0, 2}}, {{3, 5}}}).find("position 2 is on no rank"), std::string::npos);
  EXPECT_NE(message({{{0, 2}}, {{2, 3}}}).find("rank 1 holds 1 positions"), std::string::npos);
  EXPECT_NE(message({{{2, 0}}}).find("is not a range"), std::string::npos);
  EXPECT_NE(message({{{-1, 0}}}).find("is not a range"), std::string::npos);
  EXPECT_NE(message({}).find("at least one rank"), std::string::npos);
}

}  // namespace
}  // namespace tessera
