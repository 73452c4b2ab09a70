// Properties of Layout for random grids, compared with brute-force enumeration.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tessera/topology/layout.h"

namespace tessera {
namespace {

using Sizes = std::vector<AxisSize>;

// One to four axes "a", "b", … of sizes 1 to 4.
Sizes any_sizes() {
  const int count = *rc::gen::inRange(1, 5);
  Sizes sizes;
  for (int i = 0; i < count; ++i) {
    sizes.push_back({std::string(1, static_cast<char>('a' + i)), *rc::gen::inRange<int64_t>(1, 5)});
  }
  return sizes;
}

RankGroup any_ranks(int64_t count) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(i * 3 + 1);
  for (int64_t i = count; i > 1; --i) {
    std::swap(values[static_cast<size_t>(i - 1)],
              values[static_cast<size_t>(*rc::gen::inRange<int64_t>(0, i))]);
  }
  return to_ranks(values);
}

// A grid of each kind: row-major, first axis fastest with an offset, and renamed by a rank list.
Layout any_layout() {
  const Sizes sizes = any_sizes();
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      return Layout::row_major(sizes);
    case 1:
      return Layout::first_fastest(sizes, GlobalRank{*rc::gen::inRange<int64_t>(0, 100)});
    default:
      return Layout::from_ranks(sizes, any_ranks(Layout::row_major(sizes).size()));
  }
}

AxisNames any_subset(const AxisNames& names) {
  AxisNames chosen;
  for (const std::string& name : names) {
    if (*rc::gen::arbitrary<bool>()) chosen.push_back(name);
  }
  return chosen;
}

AxisNames any_order(AxisNames names) {
  for (size_t i = names.size(); i > 1; --i) {
    std::swap(names[i - 1], names[*rc::gen::inRange<size_t>(0, i)]);
  }
  return names;
}

// Groups ranks by their coordinate on the other axes, by enumerating all ranks.
std::map<Coordinate, std::set<GlobalRank>> brute_force_groups(const Layout& layout,
                                                              const AxisNames& chosen) {
  std::map<Coordinate, std::set<GlobalRank>> groups;
  for (const GlobalRank rank : layout.ranks()) {
    Coordinate key = layout.coordinate(rank);
    for (const std::string& name : chosen) {
      const auto names = layout.axis_names();
      key[static_cast<size_t>(std::ranges::find(names, name) - names.begin())] = 0;
    }
    groups[key].insert(rank);
  }
  return groups;
}

RC_GTEST_PROP(LayoutProperty, CoordinateAndRankAreInverse, ()) {
  const Layout layout = any_layout();
  std::set<GlobalRank> seen;
  for (const GlobalRank rank : layout.ranks()) {
    RC_ASSERT(layout.rank(layout.coordinate(rank)) == rank);
    RC_ASSERT(layout.contains(rank));
    seen.insert(rank);
  }
  RC_ASSERT(static_cast<int64_t>(seen.size()) == layout.size());
  for (int64_t other = -2; other < 4 * layout.size() + 110; ++other) {
    RC_ASSERT(layout.contains(GlobalRank{other}) == seen.contains(GlobalRank{other}));
  }
}

RC_GTEST_PROP(LayoutProperty, RanksAreRowMajorInTheCoordinates, ()) {
  const Layout layout = any_layout();
  std::vector<Coordinate> coordinates;
  for (const GlobalRank rank : layout.ranks()) coordinates.push_back(layout.coordinate(rank));
  RC_ASSERT(std::ranges::is_sorted(coordinates));
}

RC_GTEST_PROP(LayoutProperty, GroupsPartitionTheRanksAsBruteForceSays, ()) {
  const Layout layout = any_layout();
  const AxisNames chosen = any_order(any_subset(layout.axis_names()));
  const auto expected = brute_force_groups(layout, chosen);
  const GroupRange groups = layout.groups(chosen);
  RC_ASSERT(groups.size() == static_cast<int64_t>(expected.size()));
  std::set<std::set<GlobalRank>> found;
  for (const RankGroup& group : groups) found.emplace(group.begin(), group.end());
  for (const auto& [key, members] : expected) RC_ASSERT(found.contains(members));
}

RC_GTEST_PROP(LayoutProperty, GroupOfIsTheGroupAtGroupIndex, ()) {
  const Layout layout = any_layout();
  const AxisNames chosen = any_order(any_subset(layout.axis_names()));
  const GroupRange groups = layout.groups(chosen);
  for (const GlobalRank rank : layout.ranks()) {
    const RankGroup group = layout.group_of(rank, chosen);
    RC_ASSERT(std::ranges::count(group, rank) == 1);
    RC_ASSERT(static_cast<int64_t>(group.size()) == layout.group_size(chosen));
    RC_ASSERT(groups[layout.group_index(rank, chosen)] == group);
  }
}

RC_GTEST_PROP(LayoutProperty, PlainGridsListGroupsAndMembersInIncreasingOrder, ()) {
  const Layout layout = Layout::first_fastest(any_sizes());
  const AxisNames chosen = any_order(any_subset(layout.axis_names()));
  GlobalRank previous_first{-1};
  for (const RankGroup& group : layout.groups(chosen)) {
    RC_ASSERT(std::ranges::is_sorted(group));
    RC_ASSERT(group.front() > previous_first);
    previous_first = group.front();
  }
}

RC_GTEST_PROP(LayoutProperty, FlattenThenSplitIsTheIdentity, ()) {
  const Layout layout = any_layout();
  const AxisNames chosen = any_order(any_subset(layout.axis_names()));
  RC_PRE(!chosen.empty());
  Sizes parts;
  for (const std::string& name : chosen) parts.push_back({name, layout.axis(name).size()});
  const Layout flat = layout.flatten(chosen, "flat");
  RC_ASSERT(flat.size() == layout.size());
  RC_ASSERT(flat.split("flat", parts).permute(layout.axis_names()) == layout);
}

RC_GTEST_PROP(LayoutProperty, AFlattenedGroupHasTheMembersOfItsAxes, ()) {
  const Layout layout = any_layout();
  const AxisNames chosen = any_order(any_subset(layout.axis_names()));
  RC_PRE(!chosen.empty());
  const Layout flat = layout.flatten(chosen, "flat");
  for (const GlobalRank rank : layout.ranks()) {
    RankGroup a = layout.group_of(rank, chosen);
    RankGroup b = flat.group_of(rank, {"flat"});
    RC_ASSERT(b[static_cast<size_t>(flat.coordinate(rank, "flat"))] == rank);
    std::ranges::sort(a);
    std::ranges::sort(b);
    RC_ASSERT(a == b);
  }
}

RC_GTEST_PROP(LayoutProperty, SelectHoldsTheGroupAndKeepsTheIndices, ()) {
  const Layout layout = any_layout();
  const AxisNames chosen = any_order(any_subset(layout.axis_names()));
  const RankGroup ranks = layout.ranks();
  const GlobalRank through = ranks[*rc::gen::inRange<size_t>(0, ranks.size())];
  const Layout sub = layout.select(chosen, through);
  RankGroup members = sub.ranks();
  for (const GlobalRank rank : members) {
    for (const std::string& name : chosen) {
      RC_ASSERT(sub.coordinate(rank, name) == layout.coordinate(rank, name));
    }
  }
  RankGroup group = layout.group_of(through, chosen);
  std::ranges::sort(members);
  std::ranges::sort(group);
  RC_ASSERT(members == group);
}

RC_GTEST_PROP(LayoutProperty, PermuteChangesNoGroup, ()) {
  const Layout layout = any_layout();
  const Layout other = layout.permute(any_order(layout.axis_names()));
  const AxisNames chosen = any_subset(layout.axis_names());
  for (const GlobalRank rank : layout.ranks()) {
    RC_ASSERT(layout.group_of(rank, chosen) == other.group_of(rank, chosen));
  }
}

}  // namespace
}  // namespace tessera
