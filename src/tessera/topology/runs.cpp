#include "tessera/topology/runs.h"

#include <algorithm>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"

namespace tessera {
namespace {

void check_inside(const Box& piece, std::span<const int64_t> global_shape) {
  const Box whole{{global_shape.begin(), global_shape.end()},
                  std::vector<int64_t>(global_shape.size(), 0)};
  TSR_CHECK(intersect(piece, whole) == piece, "box ", piece, " is not inside a tensor of shape (",
            join(global_shape, ","), "); give non-empty boxes inside it");
}

Runs runs_along(size_t dim, std::span<const Box> pieces) {
  Runs runs;
  for (const Box& piece : pieces) {
    const Span run{piece.offset[dim], piece.offset[dim] + piece.shape[dim]};
    if (runs.empty() || runs.back().end <= run.begin) runs.push_back(run);
  }
  return runs;
}

std::vector<Runs> grid_of(size_t num_dims, std::span<const Box> pieces) {
  std::vector<Runs> grid;
  size_t num_pieces = 1;
  for (size_t dim = 0; dim < num_dims; ++dim) {
    grid.push_back(runs_along(dim, pieces));
    num_pieces *= grid.back().size();
  }
  TSR_CHECK(num_pieces == pieces.size(), "boxes ", join(pieces, " "),
            " do not form a grid; give them as local_boxes returns them");
  return grid;
}

/// The rows of a grid, one dimension after the other.
struct Walk {
  std::span<const int64_t> shape;
  const std::vector<Runs>& grid;
  const std::function<void(Span)>& visit;
  size_t last = 0;  // Later dimensions are whole, so runs continue across them.
  int64_t row = 1;  // The number of elements of the later dimensions.

  /// `index` counts the rows of the previous dimensions.
  void along(size_t dim, int64_t index) const {
    const int64_t begin = index * shape[dim];
    for (const Span& run : grid[dim]) {
      if (dim == last) {
        visit({(begin + run.begin) * row, (begin + run.end) * row});
        continue;
      }
      for (int64_t i = run.begin; i < run.end; ++i) along(dim + 1, begin + i);
    }
  }
};

bool is_empty(const Box& box) {
  return box.numel() == 0;
}

}  // namespace

void for_each_run(std::span<const int64_t> global_shape, std::span<const Box> pieces,
                  const std::function<void(Span)>& visit) {
  checked_product(global_shape, "the number of elements");
  if (std::ranges::all_of(pieces, is_empty)) return;
  if (global_shape.empty()) return visit({0, 1});
  for (const Box& piece : pieces) check_inside(piece, global_shape);
  const std::vector<Runs> grid = grid_of(global_shape.size(), pieces);
  Walk walk{global_shape, grid, visit, global_shape.size() - 1};
  while (walk.last > 0 && grid[walk.last].front() == Span{0, global_shape[walk.last]}) {
    walk.row *= global_shape[walk.last--];
  }
  walk.along(0, 0);
}

}  // namespace tessera
