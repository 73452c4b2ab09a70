// Properties of DeviceMesh on random meshes, as a random rank of a fake world.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tessera/mesh/device_mesh.h"

namespace tessera {
namespace {

RankGroup ranks_of(const Group& group) {
  return {group.ranks().begin(), group.ranks().end()};
}

template <class Element>
std::vector<Element> any_order(std::vector<Element> elements) {
  for (size_t i = elements.size(); i > 1; --i) {
    std::swap(elements[i - 1], elements[*rc::gen::inRange<size_t>(0, i)]);
  }
  return elements;
}

// One or more of the names, in any order.
AxisNames any_choice(const AxisNames& names) {
  AxisNames chosen = any_order(names);
  chosen.resize(*rc::gen::inRange<size_t>(1, names.size() + 1));
  return chosen;
}

// One to four axes of sizes 1 to 4, on consecutive ranks or on an unsorted list.
Layout any_layout() {
  AxisSizes sizes;
  for (const char* const name : {"a", "b", "c", "d"}) {
    sizes.push_back({name, *rc::gen::inRange<int64_t>(1, 5)});
  }
  sizes.resize(*rc::gen::inRange<size_t>(1, 5));
  const Layout grid = Layout::row_major(sizes);
  return *rc::gen::arbitrary<bool>() ? grid : Layout::from_ranks(sizes, any_order(grid.ranks()));
}

struct Sample {
  Layout layout = any_layout();
  GlobalRank rank{*rc::gen::inRange<int64_t>(0, layout.size())};
  World world = World::fake(rank, layout.size());
  DeviceMesh mesh{world, layout};
};

RC_GTEST_PROP(DeviceMeshProperty, LocalRankIsThePlaceInTheGroup, ()) {
  const Sample sample;
  for (const std::string& axis : sample.mesh.axis_names()) {
    const Group group = sample.mesh.get_group(axis);
    RC_ASSERT(ranks_of(group) == sample.layout.group_of(sample.rank, {axis}));
    RC_ASSERT(sample.mesh.get_local_rank(axis) == group.rank());
    RC_ASSERT(group.rank().value == sample.layout.coordinate(sample.rank, axis));
  }
}

RC_GTEST_PROP(DeviceMeshProperty, ASliceIsTheLayoutsSelection, ()) {
  const Sample sample;
  const AxisNames names = any_choice(sample.mesh.axis_names());
  const DeviceMesh slice = sample.mesh.slice(names);
  RC_ASSERT(slice.layout() == sample.layout.select(names, sample.rank));
  for (const std::string& axis : names) {
    RC_ASSERT(slice.get_group(axis) == sample.mesh.get_group(axis));
  }
}

RC_GTEST_PROP(DeviceMeshProperty, ASliceOfASliceIsASlice, ()) {
  const Sample sample;
  const AxisNames outer = any_choice(sample.mesh.axis_names());
  const AxisNames inner = any_choice(outer);
  RC_ASSERT(sample.mesh.slice(outer).slice(inner) == sample.mesh.slice(inner));
}

RC_GTEST_PROP(DeviceMeshProperty, AFlattenedSliceHasTheLayoutsGroup, ()) {
  const Sample sample;
  const AxisNames names = any_choice(sample.mesh.axis_names());
  const DeviceMesh flat = sample.mesh.slice(names).flatten("flat");
  const Layout expected = sample.layout.flatten(names, "flat");
  RC_ASSERT(ranks_of(flat.get_group()) == expected.group_of(sample.rank, {"flat"}));
  RC_ASSERT(flat.get_group().rank().value == expected.coordinate(sample.rank, "flat"));
  RC_ASSERT(sample.mesh.get_group("flat") == flat.get_group());
}

RC_GTEST_PROP(DeviceMeshProperty, AFlattenedAxisStandsBesideTheOthers, ()) {
  const Sample sample;
  const AxisNames names = any_choice(sample.mesh.axis_names());
  (void)sample.mesh.slice(names).flatten("flat");
  const Layout expected = sample.layout.flatten(names, "flat");
  const AxisNames order = any_order(expected.axis_names());
  RC_ASSERT(sample.mesh.slice(order).layout() == expected.permute(order));
}

RC_GTEST_PROP(DeviceMeshProperty, SplitUndoesFlatten, ()) {
  const Sample sample;
  AxisSizes parts;
  for (const Axis& axis : sample.layout.axes()) parts.push_back({axis.name(), axis.size()});
  RC_ASSERT(sample.mesh.flatten("flat").split("flat", parts) == sample.mesh);
}

RC_GTEST_PROP(DeviceMeshProperty, ConcatenatedSlicesAreTheSliceOfAll, ()) {
  const Sample sample;
  const AxisNames names = any_choice(sample.mesh.axis_names());
  std::vector<DeviceMesh> slices;
  for (const std::string& axis : names) slices.push_back(sample.mesh.slice({axis}));
  RC_ASSERT(DeviceMesh::concatenate(slices) == sample.mesh.slice(names));
}

}  // namespace
}  // namespace tessera
