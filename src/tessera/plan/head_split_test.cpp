#include "tessera/plan/head_split.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

TEST(HeadSplit, EqualSharesOfBothKindsOfHeads) {
  EXPECT_EQ(split_heads(32, 8, 4, 1), (HeadSplit{{8, 16}, {2, 4}, {1, 2}}));
  EXPECT_FALSE(split_heads(32, 8, 4, 1).replicates_kv());
  EXPECT_EQ(split_heads(6, 6, 1, 0), (HeadSplit{{0, 6}, {0, 6}, {0, 1}}));
}

TEST(HeadSplit, RanksShareAKeyValueHeadIfThereAreFewer) {
  EXPECT_EQ(split_heads(32, 8, 16, 3), (HeadSplit{{6, 8}, {1, 2}, {2, 4}}));
  EXPECT_EQ(split_heads(16, 1, 4, 2), (HeadSplit{{8, 12}, {0, 1}, {0, 4}}));
  EXPECT_TRUE(split_heads(16, 1, 4, 2).replicates_kv());
}

std::string message(int64_t heads, int64_t kv_heads, int64_t tp, int64_t rank = 0) {
  return testkit::message_of<ConfigError>([&] { split_heads(heads, kv_heads, tp, rank); });
}

TEST(HeadSplit, ErrorsNameTheNearestLegalDegrees) {
  EXPECT_EQ(
      message(12, 4, 3),
      "tp 3 does not fit 12 query heads and 4 key-value heads: tp must divide the query "
      "heads, and divide the key-value heads or be a multiple of them; nearest legal degrees: "
      "2, 4");
  EXPECT_TRUE(message(12, 6, 4).ends_with("degrees: 3, 6")) << "neither divides the other";
  EXPECT_TRUE(message(6, 2, 4).ends_with("degrees: 2, 6")) << "4 does not divide 6";
  EXPECT_TRUE(message(8, 8, 16).ends_with("degrees: 8")) << "more ranks than heads";
}

TEST(HeadSplit, NonsenseIsRefused) {
  EXPECT_NE(message(6, 4, 2).find("not a multiple of 4 key-value heads"), std::string::npos);
  EXPECT_NE(message(4, 8, 2).find("not a multiple of 8 key-value heads"), std::string::npos);
  EXPECT_NE(message(0, 1, 1).find("size of heads is 0"), std::string::npos);
  EXPECT_NE(message(4, 0, 1).find("size of kv_heads is 0"), std::string::npos);
  EXPECT_NE(message(4, 2, 0).find("size of tp is 0"), std::string::npos);
  EXPECT_NE(message(4, 2, 2, 2).find("rank 2 is outside 0 to 1"), std::string::npos);
  EXPECT_NE(message(4, 2, 2, -1).find("rank -1 is outside"), std::string::npos);
  EXPECT_NE(message(int64_t{1} << 60, 1, 3).find("too many"), std::string::npos);
}

// Legal numbers of heads for a degree: ranks share key-value heads, or each has several.
struct Degree {
  int64_t heads, kv_heads, tp;
};

rc::Gen<Degree> degrees() {
  return rc::gen::apply(
      [](int64_t ranks, int64_t factor, int64_t group, bool shared) {
        const int64_t tp = shared ? ranks * factor : ranks;
        const int64_t kv_heads = shared ? ranks : ranks * factor;
        return Degree{.heads = ranks * factor * group, .kv_heads = kv_heads, .tp = tp};
      },
      rc::gen::inRange<int64_t>(1, 9), rc::gen::inRange<int64_t>(1, 5),
      rc::gen::inRange<int64_t>(1, 5), rc::gen::arbitrary<bool>());
}

RC_GTEST_PROP(HeadSplitProperty, EveryQueryHeadIsOnOneRankWithItsKeyValueHead, ()) {
  const auto [heads, kv_heads, tp] = *degrees();
  int64_t next = 0;
  for (int64_t rank = 0; rank < tp; ++rank) {
    const HeadSplit split = split_heads(heads, kv_heads, tp, rank);
    RC_ASSERT(split.query_heads.begin == next);
    RC_ASSERT(split.query_heads.size() == heads / tp);
    next = split.query_heads.end;
    const int64_t group = heads / kv_heads;
    RC_ASSERT(split.kv_heads.begin == split.query_heads.begin / group);
    RC_ASSERT(split.kv_heads.end == (split.query_heads.end - 1) / group + 1);
  }
  RC_ASSERT(next == heads);
}

RC_GTEST_PROP(HeadSplitProperty, RanksOfOneKeyValueHeadAgreeOnWhoTheyAre, ()) {
  const auto [heads, kv_heads, tp] = *degrees();
  std::vector<int64_t> holders(static_cast<size_t>(kv_heads), 0);
  for (int64_t rank = 0; rank < tp; ++rank) {
    const HeadSplit split = split_heads(heads, kv_heads, tp, rank);
    RC_ASSERT(split.kv_ranks.begin <= rank && rank < split.kv_ranks.end);
    for (int64_t other = 0; other < tp; ++other) {
      const bool listed = split.kv_ranks.begin <= other && other < split.kv_ranks.end;
      RC_ASSERT(listed == (split_heads(heads, kv_heads, tp, other).kv_heads == split.kv_heads));
    }
    for (int64_t head = split.kv_heads.begin; head < split.kv_heads.end; ++head) {
      ++holders[static_cast<size_t>(head)];
      RC_ASSERT(split.kv_ranks.size() == std::max(tp / kv_heads, int64_t{1}));
    }
  }
  for (const int64_t count : holders) RC_ASSERT(count == std::max(tp / kv_heads, int64_t{1}));
}

bool is_legal(const Degree& degree) {
  try {
    split_heads(degree.heads, degree.kv_heads, degree.tp, 0);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// The degrees that an error proposes are legal, and no legal one lies between them.
RC_GTEST_PROP(HeadSplitProperty, ProposedDegreesAreTheNearest, ()) {
  const auto [heads, kv_heads, unused] = *degrees();
  const int64_t tp = *rc::gen::inRange<int64_t>(1, 40);
  if (is_legal({heads, kv_heads, tp})) return;
  std::vector<int64_t> proposed;
  const std::string text = message(heads, kv_heads, tp);
  for (const std::string_view degree :
       split(std::string_view(text).substr(text.rfind(": ") + 2), ',')) {
    proposed.push_back(*to_integer(degree.substr(degree.starts_with(' ') ? 1 : 0)));
  }
  if (proposed.size() == 1) proposed.push_back(heads + 1);  // Nothing above is legal.
  RC_ASSERT(proposed.size() == 2U);
  RC_ASSERT(proposed[0] < tp && proposed[1] <= heads + 1);
  for (int64_t other = proposed[0]; other <= proposed[1]; ++other) {
    const bool expected = other == proposed[0] || (other == proposed[1] && other <= heads);
    RC_ASSERT(is_legal({heads, kv_heads, other}) == expected);
  }
}

}  // namespace
}  // namespace tessera
