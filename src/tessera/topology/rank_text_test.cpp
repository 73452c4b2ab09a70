#include "tessera/topology/rank_text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ShortList, RunsAndSteps) {
  EXPECT_EQ(short_list(to_ranks({})), "");
  EXPECT_EQ(short_list(to_ranks({5})), "5");
  EXPECT_EQ(short_list(to_ranks({0, 1})), "0,1");
  EXPECT_EQ(short_list(to_ranks({0, 1, 2, 3})), "0-3");
  EXPECT_EQ(short_list(to_ranks({0, 8, 16, 24})), "0,8,16,24");
  EXPECT_EQ(short_list(to_ranks({0, 8, 16, 24, 32})), "0,8,16,…,32");
  EXPECT_EQ(short_list(to_ranks({0, 1, 2, 8, 9, 10})), "0-2,8-10");
  EXPECT_EQ(short_list(to_ranks({3, 1, 0, 2})), "3,1,0,2");
}

TEST(ShortList, TheWholeListWhereItFits) {
  const RankGroup ranks = to_ranks({0, 8, 16, 24, 32});
  EXPECT_EQ(short_list(ranks, 12), "0,8,16,24,32");
  EXPECT_EQ(short_list(ranks, 11), "0,8,16,…,32");
}

}  // namespace
}  // namespace tessera
