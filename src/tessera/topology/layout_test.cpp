#include "tessera/topology/layout.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

std::vector<RankGroup> all(const GroupRange& groups) {
  return {groups.begin(), groups.end()};
}

Layout sample() {
  return Layout::row_major({{"pp", 2}, {"dp", 3}, {"tp", 4}});
}

TEST(Layout, RowMajorVariesTheLastAxisFastest) {
  const Layout mesh = sample();
  EXPECT_EQ(mesh.size(), 24);
  EXPECT_EQ(mesh.rank(Coordinate{1, 2, 3}), GlobalRank{23});
  EXPECT_EQ(mesh.coordinate(GlobalRank{17}), (Coordinate{1, 1, 1}));
  EXPECT_EQ(mesh.coordinate(GlobalRank{17}, "dp"), 1);
  EXPECT_EQ(mesh.to_string(), "[pp=2:12 dp=3:4 tp=4:1]");
}

TEST(Layout, FirstFastestStartsAtItsOrigin) {
  const AxisSizes axes{{"tp", 2}, {"dp", 3}};
  const Layout layout = Layout::first_fastest(axes, GlobalRank{10});
  EXPECT_EQ(layout.group_of(GlobalRank{11}, {"dp"}), to_ranks({11, 13, 15}));
  EXPECT_EQ(layout.coordinate(GlobalRank{14}), (Coordinate{0, 2}));
  EXPECT_FALSE(layout.contains(GlobalRank{9}));
  EXPECT_FALSE(layout.contains(GlobalRank{16}));
  EXPECT_EQ(layout.to_string(), "[tp=2:1 dp=3:2] from rank 10");
}

TEST(Layout, GroupsComeInIncreasingPosition) {
  EXPECT_EQ(all(Layout::row_major({{"dp", 2}, {"tp", 2}}).groups({"dp"})),
            (std::vector{to_ranks({0, 2}), to_ranks({1, 3})}));
  const Layout mesh = sample();
  EXPECT_EQ(mesh.group_of(GlobalRank{5}, {"tp", "pp"}), mesh.group_of(GlobalRank{5}, {"pp", "tp"}));
  EXPECT_EQ(mesh.group_of(GlobalRank{5}, {"pp", "tp"}), to_ranks({4, 5, 6, 7, 16, 17, 18, 19}));
  EXPECT_EQ(mesh.num_groups({"pp", "tp"}), 3);
  EXPECT_EQ(mesh.group_index(GlobalRank{5}, {"pp", "tp"}), 1);
}

TEST(Layout, NoAxisGivesGroupsOfOneAndAllAxesGiveTheWorld) {
  const Layout mesh = sample();
  EXPECT_EQ(mesh.groups({}).size(), 24);
  EXPECT_EQ(mesh.group_of(GlobalRank{7}, {}), to_ranks({7}));
  EXPECT_EQ(mesh.group_of(GlobalRank{7}, mesh.axis_names()), mesh.ranks());
}

TEST(Layout, ARankTableRenamesPositions) {
  const AxisSizes axes{{"dp", 2}, {"tp", 2}};
  const Layout mesh = Layout::from_ranks(axes, to_ranks({3, 1, 0, 2}));
  EXPECT_EQ(mesh.coordinate(GlobalRank{0}), (Coordinate{1, 0}));
  EXPECT_EQ(mesh.rank(Coordinate{0, 1}), GlobalRank{1});
  EXPECT_EQ(mesh.group_of(GlobalRank{2}, {"dp"}), to_ranks({1, 2}));
  EXPECT_EQ(mesh.to_string(), "[dp=2:2 tp=2:1] over ranks 3,1,0,2");
  EXPECT_FALSE(mesh.contains(GlobalRank{4}));
}

TEST(Layout, AListOfConsecutiveRanksNeedsNoTable) {
  const AxisSizes axes{{"dp", 2}, {"tp", 2}};
  EXPECT_EQ(Layout::from_ranks(axes, to_ranks({0, 1, 2, 3})), Layout::row_major(axes));
  EXPECT_EQ(Layout::from_ranks(axes, to_ranks({4, 5, 6, 7})).to_string(),
            "[dp=2:2 tp=2:1] from rank 4");
}

TEST(Layout, SelectGoesThroughARank) {
  const Layout sub = sample().select({"tp", "pp"}, GlobalRank{9});
  EXPECT_EQ(sub.axis_names(), (AxisNames{"tp", "pp"}));
  EXPECT_EQ(sub.ranks(), to_ranks({8, 20, 9, 21, 10, 22, 11, 23}));
  EXPECT_TRUE(sub.contains(GlobalRank{22}));
  EXPECT_FALSE(sub.contains(GlobalRank{12})) << "rank 12 has another dp index";
}

TEST(Layout, SelectKeepsTheRankTable) {
  const AxisSizes axes{{"dp", 2}, {"tp", 2}};
  const Layout mesh = Layout::from_ranks(axes, to_ranks({3, 1, 0, 2}));
  EXPECT_EQ(mesh.select({"tp"}, GlobalRank{0}).ranks(), to_ranks({0, 2}));
}

TEST(Layout, FlattenOfNeighboursMergesTheirExtents) {
  const Layout flat = sample().flatten({"pp", "dp"}, "pp_dp");
  EXPECT_EQ(flat.to_string(), "[pp_dp=6:4 tp=4:1]");
  EXPECT_EQ(flat, Layout::row_major({{"pp_dp", 6}, {"tp", 4}}));
}

TEST(Layout, FlattenOfDistantAxesStaysAnAxis) {
  const Layout flat = sample().flatten({"pp", "tp"}, "model");
  EXPECT_EQ(flat.to_string(), "[model=(2:12,4:1) dp=3:4]");
  EXPECT_EQ(flat.group_of(GlobalRank{5}, {"model"}), to_ranks({4, 5, 6, 7, 16, 17, 18, 19}));
  EXPECT_EQ(flat.coordinate(GlobalRank{17}), (Coordinate{5, 1}));
}

TEST(Layout, AFlattenedAxisCountsByItsOwnIndex) {
  const Layout flat = sample().flatten({"tp", "pp"}, "model");  // pp fastest
  EXPECT_EQ(flat.group_of(GlobalRank{5}, {"model"}), to_ranks({4, 16, 5, 17, 6, 18, 7, 19}));
}

TEST(Layout, SplitUndoesFlatten) {
  const Layout mesh = sample();
  const AxisSizes parts{{"pp", 2}, {"tp", 4}};
  EXPECT_EQ(mesh.flatten({"pp", "tp"}, "x").split("x", parts).permute(mesh.axis_names()), mesh);
}

TEST(Layout, SplitCutsAcrossExtents) {
  const Layout flat = sample().flatten({"pp", "tp"}, "model");  // (2:12,4:1)
  const AxisSizes parts{{"outer", 4}, {"inner", 2}};
  EXPECT_EQ(flat.split("model", parts).to_string(), "[outer=(2:12,2:2) inner=2:1 dp=3:4]");
}

TEST(Layout, ConcatenatePutsSubGridsSideBySide) {
  const Layout mesh = sample();
  const Layout model = mesh.flatten({"pp", "tp"}, "model").select({"model"}, GlobalRank{5});
  const std::vector<Layout> parts{model, mesh.select({"dp"}, GlobalRank{5})};
  const Layout expected = mesh.flatten({"pp", "tp"}, "model");
  EXPECT_EQ(Layout::concatenate(parts, GlobalRank{5}), expected);
  const std::vector<Layout> two{mesh.select({"tp"}, GlobalRank{17}),
                                mesh.select({"pp"}, GlobalRank{17})};
  EXPECT_EQ(Layout::concatenate(two, GlobalRank{17}), mesh.select({"tp", "pp"}, GlobalRank{17}));
}

TEST(Layout, KnowsItsLargestRank) {
  EXPECT_EQ(sample().largest_rank(), GlobalRank{23});
  EXPECT_EQ(Layout::first_fastest({{"tp", 4}}, GlobalRank{3}).largest_rank(), GlobalRank{6});
  const Layout listed = Layout::from_ranks({{"dp", 2}, {"tp", 2}}, to_ranks({7, 1, 3, 5}));
  EXPECT_EQ(listed.largest_rank(), GlobalRank{7});
  EXPECT_EQ(listed.select({"tp"}, GlobalRank{5}).largest_rank(), GlobalRank{5});
}

TEST(Layout, EqualityIsAboutRanks) {
  const AxisSizes two_by_two{{"dp", 2}, {"tp", 2}};
  const Layout from_table =
      Layout::from_ranks(two_by_two, to_ranks({0, 2, 4, 6})).select({"tp"}, GlobalRank{4});
  const Layout from_grid = Layout::row_major({{"tp", 4}, {"x", 2}})
                               .split("tp", AxisSizes{{"a", 2}, {"tp", 2}})
                               .select({"tp"}, GlobalRank{4});
  EXPECT_EQ(from_table.ranks(), to_ranks({4, 6}));
  EXPECT_EQ(from_table, from_grid);
  EXPECT_NE(sample(), sample().permute({"tp", "dp", "pp"}));
}

TEST(Layout, AMillionRanksCostNothing) {
  const Layout world = Layout::row_major({{"dp", 1 << 17}, {"tp", 8}});
  EXPECT_EQ(world.group_of(GlobalRank{1'000'000}, {"tp"}).front(), GlobalRank{1'000'000});
  EXPECT_EQ(world.groups({"dp"}).size(), 8);
}

TEST(LayoutErrors, NameTheValueAndTheRule) {
  EXPECT_EQ(message_of<ConfigError>([] { Layout::row_major({{"tp", 0}}); }),
            "axis 'tp' has size 0; sizes must be at least 1");
  EXPECT_EQ(message_of<ConfigError>([] { Layout::row_major({{"tp", 2}, {"tp", 2}}); }),
            "axis 'tp' appears twice; give every axis its own name");
  EXPECT_EQ(message_of<ConfigError>([] { Layout::row_major({{"", 2}}); }),
            "an axis of size 2 has no name; give every axis a name");
  EXPECT_EQ(message_of<ConfigError>([] { (void)sample().axis("dpp"); }),
            "the layout [pp=2:12 dp=3:4 tp=4:1] has no axis 'dpp'; did you mean 'pp'?");
  EXPECT_EQ(message_of<ConfigError>([] { (void)sample().coordinate(GlobalRank{24}); }),
            "rank 24 is not in the layout [pp=2:12 dp=3:4 tp=4:1] of 24 ranks");
  EXPECT_EQ(message_of<ConfigError>([] { (void)sample().rank(Coordinate{0, 3, 0}); }),
            "index 3 is outside axis 'dp'; it has indices 0 to 2");
}

TEST(LayoutErrors, RefuseWhatOverflows) {
  const int64_t huge = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_THROW(Layout::row_major({{"dp", huge}, {"tp", 3}}), ConfigError);
  const AxisSizes axes{{"dp", huge}};
  EXPECT_THROW(Layout::first_fastest(axes, GlobalRank{huge + 2}), ConfigError);
}

TEST(LayoutErrors, RefuseBadRankLists) {
  const AxisSizes two{{"dp", 2}};
  EXPECT_THROW(Layout::from_ranks(two, to_ranks({0, 1, 2})), ConfigError);
  EXPECT_THROW(Layout::from_ranks(two, to_ranks({3, 3})), ConfigError);
  EXPECT_THROW(Layout::from_ranks(two, to_ranks({-1, 0})), ConfigError);
  EXPECT_THROW(Layout::from_ranks(two, to_ranks({})), ConfigError);
}

TEST(LayoutErrors, RefuseRankListsThatWrapAround) {
  const AxisSizes two{{"dp", 2}};
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(Layout::from_ranks(two, to_ranks({most, -most - 1})), ConfigError);
}

TEST(LayoutErrors, RefuseGroupsThatDoNotExist) {
  const GroupRange groups = sample().groups({"tp"});
  EXPECT_THROW(groups[-1], ConfigError);
  EXPECT_THROW(groups[groups.size()], ConfigError);
}

TEST(LayoutErrors, RefuseExtentsWithoutSteps) {
  EXPECT_THROW(Axis("x", std::vector<Extent>{{0, 1}}), ConfigError);
  EXPECT_THROW(Axis("x", std::vector<Extent>{{2, 0}}), ConfigError);
}

TEST(LayoutErrors, RefuseBadAlgebra) {
  const Layout mesh = sample();
  EXPECT_THROW((void)mesh.permute({"pp", "dp"}), ConfigError);
  EXPECT_THROW((void)mesh.permute({"pp", "dp", "dp"}), ConfigError);
  EXPECT_THROW((void)mesh.flatten({}, "x"), ConfigError);
  EXPECT_THROW((void)mesh.flatten({"pp", "tp"}, "dp"), ConfigError);
  EXPECT_THROW((void)mesh.split("dp", AxisSizes{{"a", 2}, {"b", 2}}), ConfigError);
  EXPECT_THROW((void)mesh.split("dp", AxisSizes{{"a", -3}, {"b", -1}}), ConfigError);
}

TEST(LayoutErrors, RefuseToConcatenateWhatIsNotApart) {
  const Layout mesh = sample();
  const Layout tp = mesh.select({"tp"}, GlobalRank{5});
  const Layout model = mesh.flatten({"pp", "dp"}, "m").select({"m"}, GlobalRank{5});
  const auto concatenate = [](const Layout& a, const Layout& b, GlobalRank through) {
    return Layout::concatenate(std::vector<Layout>{a, b}, through);
  };
  EXPECT_EQ(message_of<ConfigError>(
                [&] { concatenate(model, mesh.select({"dp"}, GlobalRank{5}), GlobalRank{5}); }),
            "the axes m=6:4 and dp=3:4 overlap in their ranks; choose one of them");
  EXPECT_THROW(concatenate(tp, tp, GlobalRank{5}), ConfigError);
  EXPECT_THROW(concatenate(tp, mesh.select({"dp"}, GlobalRank{4}), GlobalRank{5}), ConfigError);
  EXPECT_THROW((void)Layout::concatenate({}, GlobalRank{0}), ConfigError);
  // 6 as 2 × 3 and as 3 × 2: rank 8 would include rank 24, which is in no grid.
  const auto outer = model.split("m", AxisSizes{{"a", 2}, {"b", 3}}).select({"a"}, GlobalRank{9});
  const auto inner = model.split("m", AxisSizes{{"c", 3}, {"d", 2}}).select({"d"}, GlobalRank{9});
  EXPECT_THROW(concatenate(outer, inner, GlobalRank{9}), ConfigError);
  const Layout table = Layout::from_ranks({{"x", 2}}, to_ranks({9, 5}));
  EXPECT_THROW(concatenate(tp, table, GlobalRank{5}), ConfigError);
  const std::vector<Layout> strangers{
      Layout::first_fastest({{"a", 2}}, GlobalRank{4}),
      Layout::first_fastest({{"i", 2}, {"b", 2}}, GlobalRank{3}).select({"b"}, GlobalRank{5}),
      Layout::first_fastest({{"i", 4}, {"c", 2}}, GlobalRank{1}).select({"c"}, GlobalRank{5})};
  EXPECT_EQ(message_of<ConfigError>([&] { (void)Layout::concatenate(strangers, GlobalRank{5}); }),
            "the layouts [a=2:1] from rank 4, [b=2:2] from rank 3, [c=2:4] from rank 1 were not "
            "selected from one layout: together they start before rank 0");
}

TEST(LayoutErrors, RefuseASplitThatIsNoAxis) {
  const Layout layout = Layout::row_major({{"a", 3}, {"b", 2}, {"c", 2}}).flatten({"a", "c"}, "x");
  const AxisSizes parts{{"outer", 2}, {"inner", 3}};
  EXPECT_EQ(
      message_of<ConfigError>([&] { (void)layout.split("x", parts); }),
      "axis x=(3:4,2:1) cannot be split into inner=3: its stride changes after every 2 ranks; "
      "choose a divisor or a multiple of 2");
}

}  // namespace
}  // namespace tessera
