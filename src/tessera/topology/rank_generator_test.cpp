#include "tessera/topology/rank_generator.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

constexpr const char* kDefaultOrder = "tp-cp-ep-dp-pp";

TEST(RankGenerator, TheFirstEntryVariesFastest) {
  const RankGenerator generator(2, 1, 3, 4, 1, "tp-dp-pp");
  EXPECT_EQ(generator.world_size(), 24);
  EXPECT_EQ(generator.order(), "tp-dp-pp-ep-cp");
  EXPECT_EQ(generator.ordered_size(), (std::vector<int64_t>{2, 3, 4, 1, 1}));
  EXPECT_EQ(generator.get_ranks("dp")[1], to_ranks({1, 3, 5}));
  EXPECT_EQ(generator.get_ranks("pp")[0], to_ranks({0, 6, 12, 18}));
}

TEST(RankGenerator, TokensMayBePermutedAndRepeated) {
  const RankGenerator generator(2, 1, 2, 2, 2, kDefaultOrder);
  EXPECT_EQ(generator.get_ranks("dp-cp"), generator.get_ranks("cp-dp"));
  EXPECT_EQ(generator.get_ranks("dp-cp"), generator.get_ranks("dp-dp-cp"));
}

TEST(RankGenerator, OrdersAreReadInEitherCaseButTokensAreNot) {
  const RankGenerator generator(2, 1, 2, 2, 1, "TP-DP-PP");
  EXPECT_EQ(generator.order(), "tp-dp-pp-ep-cp");
  EXPECT_THROW(generator.get_ranks("TP"), ConfigError);
}

TEST(RankGenerator, MaskHasOneEntryPerOrderEntry) {
  EXPECT_EQ(RankGenerator::get_mask("tp-pp-dp", "dp-tp"), (std::vector<bool>{true, false, true}));
}

TEST(RankGenerator, TheOffsetMovesEveryRank) {
  EXPECT_EQ(RankGenerator(2, 1, 2, 1, 1, kDefaultOrder, 8).get_ranks("dp"),
            (std::vector{to_ranks({8, 10}), to_ranks({9, 11})}));
}

TEST(RankGeneratorErrors, NameTheValueTheRuleAndTheFix) {
  EXPECT_EQ(
      message_of<ConfigError>([] { RankGenerator(2, 1, 2, 1, 1, "tp-pp"); }),
      "dp has size 2 but is not in order 'tp-pp'; add 'dp' to the order or set its size to 1");
  EXPECT_EQ(message_of<ConfigError>([] { RankGenerator(2, 1, 1, 1, 1, "tp-foo"); }),
            "order 'tp-foo' has the unknown entry 'foo'; join tp, cp, ep, dp and pp by "
            "single hyphens, fastest first");
  EXPECT_EQ(message_of<ConfigError>([] { RankGenerator(2, 1, 1, 1, 1, "tp-dp-tp"); }),
            "order 'tp-dp-tp' has the entry 'tp' twice; give every entry once");
  EXPECT_EQ(message_of<ConfigError>([] { RankGenerator(0, 1, 1, 1, 1, kDefaultOrder); }),
            "the size of tp is 0, but must be at least 1");
  EXPECT_EQ(message_of<ConfigError>([] { RankGenerator(1, 1, 1, 1, 1, kDefaultOrder, -1); }),
            "rank offset -1 is negative, but must be at least 0");
  EXPECT_EQ(message_of<ConfigError>([] { RankGenerator(1, 2, 1, 1, 2, kDefaultOrder); }),
            "ep=2 and cp=2 are both above 1; a rank generator holds either the decoder's layout "
            "(ep=1) or the experts' (cp=1)");
}

TEST(RankGeneratorErrors, RefuseMalformedOrders) {
  for (const char* order : {"", "-", "tp-", "tp--dp", "tp dp", "tpp-dp", "tp-dp-dp"}) {
    EXPECT_THROW(RankGenerator(2, 1, 1, 1, 1, order), ConfigError) << order;
  }
}

TEST(RankGeneratorErrors, RefuseOverflow) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_THROW(RankGenerator(huge, 1, huge, 1, 1, kDefaultOrder), ConfigError);
  EXPECT_THROW(RankGenerator(1, 1, std::numeric_limits<int64_t>::max(), 1, 1, kDefaultOrder, 1),
               ConfigError);
}

TEST(MaskedGroups, SpanTheMaskedSizes) {
  const std::vector<int64_t> sizes{2, 3, 4};
  EXPECT_EQ(generate_masked_orthogonal_rank_groups(24, sizes, {true, false, true})[1],
            to_ranks({2, 3, 8, 9, 14, 15, 20, 21}));
  EXPECT_EQ(generate_masked_orthogonal_rank_groups(24, sizes, {false, false, false}).size(), 24U);
}

TEST(MaskedGroups, RefuseAWorldThatIsNotTheProduct) {
  const std::vector<int64_t> sizes{2, 2};
  for (const int64_t world : {0, 2, 7, 16}) {
    EXPECT_THROW(generate_masked_orthogonal_rank_groups(world, sizes, {true, false}), ConfigError);
  }
  EXPECT_THROW(generate_masked_orthogonal_rank_groups(4, sizes, {true}), ConfigError);
}

}  // namespace
}  // namespace tessera
