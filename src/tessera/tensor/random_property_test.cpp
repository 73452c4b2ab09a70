// However a tensor is sharded, its shards together are the same tensor, bit for bit.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tessera/tensor/random.h"
#include "tessera/topology/layout.h"

namespace tessera {
namespace {

using Shape = std::vector<int64_t>;

struct Sharding {
  Shape shape;
  Shape mesh_shape;
  std::vector<Placement> placements;
};

/// A uniform number below `end`: rapidcheck prefers small numbers, which split nothing.
int64_t any_from(int64_t begin, int64_t end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(begin, end));
}

Placement any_placement(int64_t num_dims) {
  const auto dim = any_from(0, num_dims);
  switch (any_from(0, 4)) {
    case 0:
      return Replicate{};
    case 1:
      return StridedShard{dim, any_from(1, 4)};
    default:
      return Shard{dim};
  }
}

Sharding any_sharding() {
  Sharding sharding;
  const int64_t num_dims = any_from(1, 4);
  const int64_t num_axes = any_from(1, 4);
  for (int64_t i = 0; i < num_dims; ++i) sharding.shape.push_back(any_from(0, 20));
  for (int64_t i = 0; i < num_axes; ++i) {
    sharding.mesh_shape.push_back(any_from(1, 5));
    sharding.placements.push_back(any_placement(num_dims));
  }
  return sharding;
}

Layout mesh_of(const Sharding& sharding) {
  std::vector<AxisSize> axes;
  for (const int64_t size : sharding.mesh_shape)
    axes.push_back({std::to_string(axes.size()), size});
  return Layout::row_major(axes);
}

/// The pieces of the full tensor, in the grid in which the local tensor holds them.
at::Tensor cut_out(const at::Tensor& whole, std::span<const Box> pieces, const Shape& local_shape) {
  std::vector<at::Tensor> indices;  // Indices that are held, per dimension.
  for (int64_t dim = 0; dim < whole.dim(); ++dim) {
    const auto d = static_cast<size_t>(dim);
    at::Tensor held = at::zeros({whole.size(dim)}, at::kBool);
    for (const Box& piece : pieces) held.narrow(0, piece.offset[d], piece.shape[d]).fill_(true);
    indices.push_back(held.nonzero().flatten());
  }
  at::Tensor part = whole;
  for (int64_t dim = 0; dim < whole.dim(); ++dim) {
    part = part.index_select(dim, indices[static_cast<size_t>(dim)]);
  }
  return pieces.empty() ? at::empty(local_shape, whole.options()) : part;
}

RC_GTEST_PROP(InitProperty, EveryShardIsItsPartOfTheFullTensor, ()) {
  const Sharding s = any_sharding();
  const RandomKey key{.seed = *rc::gen::arbitrary<uint64_t>(), .name = "w"};
  const at::ScalarType type = *rc::gen::element(at::kFloat, at::kDouble, at::kBFloat16);
  const Distribution distribution = *rc::gen::element<Distribution>(
      Normal{}, Uniform{-1, 1}, TruncatedNormal{}, Bernoulli{0.5}, Constant{1});
  const at::Tensor whole = at::empty(s.shape, type);
  init_(whole, Box{s.shape, Shape(s.shape.size(), 0)}, s.shape, key, distribution);
  const Layout mesh = mesh_of(s);
  for (const GlobalRank rank : mesh.ranks()) {
    const Coordinate at = mesh.coordinate(rank);
    const auto pieces = local_boxes(s.shape, s.mesh_shape, at, s.placements);
    const Box box = compute_local_shape_and_global_offset(s.shape, s.mesh_shape, at, s.placements);
    const at::Tensor shard = at::empty(box.shape, type);
    init_(shard, pieces, s.shape, key, distribution);
    RC_ASSERT(shard.equal(cut_out(whole, pieces, box.shape)));
  }
}

}  // namespace
}  // namespace tessera
