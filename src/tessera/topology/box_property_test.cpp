// Properties of the shard arithmetic for random shapes, meshes and placements.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "tessera/topology/box.h"
#include "tessera/topology/layout.h"

namespace tessera {
namespace {

using Shape = std::vector<int64_t>;

struct Sharding {
  Shape global_shape;
  Shape mesh_shape;
  std::vector<Placement> placements;
};

Placement any_placement(int64_t num_dims) {
  const auto dim = *rc::gen::inRange<int64_t>(-num_dims, num_dims);
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return Replicate{};
    case 1:
      return Partial{};
    case 2:
      return StridedShard{dim, *rc::gen::inRange<int64_t>(1, 4)};
    default:
      return Shard{dim};
  }
}

Sharding any_sharding() {
  Sharding sharding;
  const int num_dims = *rc::gen::inRange(1, 4);
  for (int i = 0; i < num_dims; ++i) {
    sharding.global_shape.push_back(*rc::gen::inRange<int64_t>(0, 9));
  }
  const int num_axes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < num_axes; ++i) {
    sharding.mesh_shape.push_back(*rc::gen::inRange<int64_t>(1, 5));
    sharding.placements.push_back(any_placement(num_dims));
  }
  return sharding;
}

Layout mesh_of(const Sharding& sharding) {
  std::vector<AxisSize> axes;
  for (size_t i = 0; i < sharding.mesh_shape.size(); ++i) {
    axes.push_back({std::to_string(i), sharding.mesh_shape[i]});
  }
  return Layout::row_major(axes);
}

// The local index list of one dimension, computed directly by the definition.
Shape brute_force_indices(const Sharding& sharding, const Coordinate& at, size_t dim) {
  Shape indices;
  for (int64_t i = 0; i < sharding.global_shape[dim]; ++i) indices.push_back(i);
  const auto pieces_of = [](const Shape& list, int64_t count) {
    std::vector<Shape> pieces(static_cast<size_t>(count));
    const int64_t size = (static_cast<int64_t>(list.size()) + count - 1) / count;
    for (size_t i = 0; i < list.size(); ++i)
      pieces[i / static_cast<size_t>(size)].push_back(list[i]);
    return pieces;
  };
  for (size_t axis = 0; axis < sharding.placements.size(); ++axis) {
    int64_t cut_dim = 0;
    int64_t factor = 1;
    if (const auto* shard = std::get_if<Shard>(&sharding.placements[axis])) {
      cut_dim = shard->dim;
    } else if (const auto* strided = std::get_if<StridedShard>(&sharding.placements[axis])) {
      cut_dim = strided->dim;
      factor = strided->split_factor;
    } else {
      continue;
    }
    if (cut_dim < 0) cut_dim += static_cast<int64_t>(sharding.global_shape.size());
    if (static_cast<size_t>(cut_dim) != dim) continue;
    Shape mine;
    for (const Shape& piece : pieces_of(indices, factor)) {
      const auto parts = pieces_of(piece, sharding.mesh_shape[axis]);
      const Shape& part = parts[static_cast<size_t>(at[axis])];
      mine.insert(mine.end(), part.begin(), part.end());
    }
    indices = mine;
  }
  return indices;
}

RC_GTEST_PROP(BoxProperty, ShapeAndOffsetAgreeWithBruteForce, ()) {
  const Sharding s = any_sharding();
  const Layout mesh = mesh_of(s);
  for (const GlobalRank rank : mesh.ranks()) {
    const Coordinate at = mesh.coordinate(rank);
    const Box box =
        compute_local_shape_and_global_offset(s.global_shape, s.mesh_shape, at, s.placements);
    for (size_t dim = 0; dim < s.global_shape.size(); ++dim) {
      const Shape indices = brute_force_indices(s, at, dim);
      RC_ASSERT(box.shape[dim] == static_cast<int64_t>(indices.size()));
      RC_ASSERT(box.offset[dim] == (indices.empty() ? s.global_shape[dim] : indices[0]));
    }
  }
}

RC_GTEST_PROP(BoxProperty, BoxesOfTheShardsCoverEachElementEquallyOften, ()) {
  const Sharding s = any_sharding();
  const Layout mesh = mesh_of(s);
  int64_t copies = 1;  // Every axis that does not shard multiplies the replicas.
  for (size_t i = 0; i < s.placements.size(); ++i) {
    const bool cuts = std::holds_alternative<Shard>(s.placements[i]) ||
                      std::holds_alternative<StridedShard>(s.placements[i]);
    if (!cuts) copies *= s.mesh_shape[i];
  }
  const Box everything{s.global_shape, Shape(s.global_shape.size(), 0)};
  int64_t covered = 0;
  for (const GlobalRank rank : mesh.ranks()) {
    const Coordinate at = mesh.coordinate(rank);
    const Box whole =
        compute_local_shape_and_global_offset(s.global_shape, s.mesh_shape, at, s.placements);
    int64_t mine = 0;
    for (const Box& box : local_boxes(s.global_shape, s.mesh_shape, at, s.placements)) {
      mine += box.numel();
      RC_ASSERT(intersect(box, everything) == box);
    }
    RC_ASSERT(mine == whole.numel());
    covered += mine;
  }
  RC_ASSERT(covered == copies * everything.numel());
}

RC_GTEST_PROP(BoxProperty, ShardsOfDifferentRanksDoNotOverlap, ()) {
  Sharding s = any_sharding();
  for (Placement& placement : s.placements) {
    if (std::holds_alternative<Replicate>(placement) ||
        std::holds_alternative<Partial>(placement)) {
      placement = Shard{0};
    }
  }
  const Layout mesh = mesh_of(s);
  std::vector<Box> seen;
  for (const GlobalRank rank : mesh.ranks()) {
    const auto mine =
        local_boxes(s.global_shape, s.mesh_shape, mesh.coordinate(rank), s.placements);
    for (const Box& box : mine) {
      for (const Box& other : seen) RC_ASSERT(!intersect(box, other).has_value());
    }
    seen.insert(seen.end(), mine.begin(), mine.end());
  }
}

RC_GTEST_PROP(BoxProperty, BothChunkingRulesTileTheDimension, ()) {
  const auto size = *rc::gen::inRange<int64_t>(0, 100);
  const auto num_pieces = *rc::gen::inRange<int64_t>(1, 40);
  int64_t chunk_end = 0;
  int64_t split_end = 0;
  for (int64_t i = 0; i < num_pieces; ++i) {
    RC_ASSERT(chunk(size, num_pieces, i).begin == chunk_end);
    RC_ASSERT(tensor_split(size, num_pieces, i).begin == split_end);
    chunk_end = chunk(size, num_pieces, i).end;
    split_end = tensor_split(size, num_pieces, i).end;
  }
  RC_ASSERT(chunk_end == size);
  RC_ASSERT(split_end == size);
}

}  // namespace
}  // namespace tessera
