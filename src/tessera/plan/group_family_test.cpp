#include "tessera/plan/group_family.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

Layout pipelines() {
  return Layout::row_major({{"pp", 4}, {"dp", 2}});
}

Layout line(int64_t size) {
  return Layout::row_major({{"ranks", size}});
}

TEST(GroupFamily, WholeLines) {
  const GroupFamily family(pipelines(), {"pp"});
  EXPECT_EQ(family.size(), 4);
  EXPECT_EQ(family.count(), 2);
  EXPECT_TRUE(family.covers());
  EXPECT_EQ(family.group_of(GlobalRank{3}), to_ranks({1, 3, 5, 7}));
  EXPECT_EQ(family.index_of(GlobalRank{3}), 1);
  EXPECT_EQ(family.group(0), to_ranks({0, 2, 4, 6}));
}

TEST(GroupFamily, EndsAndFirstLeaveOthersOut) {
  const GroupFamily ends(pipelines(), {"pp"}, Ends{});
  EXPECT_EQ(ends.size(), 2);
  EXPECT_FALSE(ends.covers());
  EXPECT_EQ(ends.group_of(GlobalRank{7}), to_ranks({1, 7}));
  EXPECT_EQ(ends.group_of(GlobalRank{3}), std::nullopt);
  EXPECT_EQ(ends.index_of(GlobalRank{3}), std::nullopt);
  const GroupFamily first(pipelines(), {"pp"}, First{});
  EXPECT_EQ(first.group_of(GlobalRank{1}), to_ranks({1}));
  EXPECT_EQ(first.group_of(GlobalRank{7}), std::nullopt);
  EXPECT_EQ(first.groups(), (std::vector{to_ranks({0}), to_ranks({1})}));
}

TEST(GroupFamily, EndsOfALineOfOneAreThatOne) {
  const GroupFamily family(Layout::row_major({{"pp", 1}}), {"pp"}, Ends{});
  EXPECT_EQ(family.size(), 1);
  EXPECT_EQ(family.group_of(GlobalRank{0}), to_ranks({0}));
}

TEST(GroupFamily, CutsTakeEveryStrideThMember) {
  const GroupFamily family(line(16), {"ranks"}, Cut{2, 2});
  EXPECT_EQ(family.count(), 8);
  EXPECT_EQ(family.group(1), to_ranks({1, 3}));
  EXPECT_EQ(family.group(2), to_ranks({4, 6}));
  EXPECT_EQ(family.group_of(GlobalRank{6}), to_ranks({4, 6}));
  EXPECT_EQ(family.index_of(GlobalRank{6}), 2);
}

TEST(GroupFamily, TheLastOfConsecutiveGroupsMayBeShort) {
  const GroupFamily family(line(10), {"ranks"}, Cut{4});
  EXPECT_EQ(family.size(), 4);
  EXPECT_EQ(family.count(), 3);
  EXPECT_EQ(family.group_of(GlobalRank{9}), to_ranks({8, 9}));
  EXPECT_EQ(family.group(2), to_ranks({8, 9}));
}

TEST(GroupFamily, ListsAreKeptAndGroupsSorted) {
  const Chosen chosen{{to_ranks({6, 0}), to_ranks({7, 3, 1})}};
  const GroupFamily family(pipelines(), {"pp"}, chosen);
  EXPECT_EQ(family.size(), 3);
  EXPECT_EQ(family.listed(1), to_ranks({7, 3, 1}));
  EXPECT_EQ(family.group(1), to_ranks({1, 3, 7}));
  EXPECT_EQ(family.group_of(GlobalRank{3}), to_ranks({1, 3, 7}));
  EXPECT_EQ(family.group_of(GlobalRank{5}), std::nullopt);
  EXPECT_EQ(family.groups()[0], to_ranks({0, 6}));
}

TEST(GroupFamily, ListingByNameChangesTheListAlone) {
  const Layout grid = Layout::first_fastest({{"dp", 2}, {"tp", 2}});
  const GroupFamily family(grid, {"dp", "tp"}, Whole{}, Listing::kByName);
  EXPECT_EQ(family.listed(0), to_ranks({0, 2, 1, 3}));
  EXPECT_EQ(family.group(0), to_ranks({0, 1, 2, 3}));
  EXPECT_EQ(family.group_of(GlobalRank{1}), to_ranks({0, 1, 2, 3}));
}

TEST(GroupFamilyErrors, CutsThatDoNotFit) {
  EXPECT_THROW(GroupFamily(line(6), {"ranks"}, Cut{2, 2}), ConfigError);
  EXPECT_THROW(GroupFamily(line(6), {"ranks"}, Cut{0}), ConfigError);
  EXPECT_THROW(GroupFamily(line(6), {"ranks"}, Cut{2, -1}), ConfigError);
  EXPECT_THROW(GroupFamily(line(6), {"rank"}), ConfigError) << "no such axis";
}

TEST(GroupFamilyErrors, ListsThatDoNotFit) {
  const auto refused = [](Chosen chosen) {
    return message_of<ConfigError>([&] { GroupFamily(pipelines(), {"pp"}, std::move(chosen)); });
  };
  EXPECT_EQ(refused({{to_ranks({0})}}), "1 lists were given for 2 lines; give one per line");
  EXPECT_EQ(refused({{to_ranks({0}), {}}}),
            "the callback chose no rank of the line 1,3,5,7; it must choose at least 1");
  EXPECT_EQ(refused({{to_ranks({0}), to_ranks({2})}}),
            "the callback chose rank 2 of the line 1,3,5,7, which does not have it; it must choose "
            "ranks of the line");
  EXPECT_EQ(
      refused({{to_ranks({0, 0}), to_ranks({1})}}),
      "the callback chose rank 0 twice in the line 0,2,4,6; it must choose each rank at most once");
}

}  // namespace
}  // namespace tessera
