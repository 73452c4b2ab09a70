#include "tessera/topology/box.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"

namespace tessera {
namespace {

void check_piece(int64_t size, int64_t num_pieces, int64_t index) {
  TSR_CHECK(size >= 0, "size ", size, " is negative, but tensor sizes must be at least 0");
  TSR_CHECK(num_pieces > 0, "a dimension cannot be cut into ", num_pieces,
            " pieces; it must be at least 1");
  TSR_CHECK(0 <= index && index < num_pieces, "piece ", index, " of ", num_pieces,
            " does not exist; pieces are numbered from 0");
}

// Appends the run; merges it with the last one if it continues it.
void append(Runs& runs, Span run) {
  if (run.size() == 0) return;
  if (!runs.empty() && runs.back().end == run.begin) {
    runs.back().end = run.end;
  } else {
    runs.push_back(run);
  }
}

// Reads parts of a list of runs by local index, from front to back: passes each run once.
class RunReader {
 public:
  explicit RunReader(const Runs& runs) : runs_(runs) {}

  // Appends the local indices of `wanted`, which must start after the previous call's.
  void read(Span wanted, Runs& part) {
    while (run_ < runs_.size() && first_ < wanted.end) {
      const Span& run = runs_[run_];
      const int64_t begin = std::max(wanted.begin - first_, int64_t{0});
      const int64_t end = std::min(wanted.end - first_, run.size());
      if (begin < end) append(part, {run.begin + begin, run.begin + end});
      if (end < run.size()) return;  // The next call may need the rest.
      first_ += run.size();
      ++run_;
    }
  }

 private:
  const Runs& runs_;
  size_t run_ = 0;
  int64_t first_ = 0;  // The local index at which the run starts.
};

struct Cut {
  int64_t dim = 0;
  int64_t split_factor = 1;
};

std::optional<Cut> cut_of(const Placement& placement) {
  if (const auto* shard = std::get_if<Shard>(&placement)) return Cut{shard->dim, 1};
  if (const auto* strided = std::get_if<StridedShard>(&placement)) {
    return Cut{strided->dim, strided->split_factor};
  }
  return std::nullopt;
}

size_t normal_dim(int64_t dim, size_t num_dims, const Placement& placement) {
  const auto n = static_cast<int64_t>(num_dims);
  TSR_CHECK(-n <= dim && dim < n, "placement ", to_string(placement), " names dimension ", dim,
            " of a tensor of ", n, " dimensions; choose ",
            n == 0 ? "R, a scalar cannot be sharded" : concat("one from ", -n, " to ", n - 1));
  return static_cast<size_t>(dim < 0 ? dim + n : dim);
}

void check_mesh(std::span<const int64_t> mesh_shape, std::span<const int64_t> coordinate,
                std::span<const Placement> placements) {
  TSR_CHECK(coordinate.size() == mesh_shape.size(), "a coordinate of ", coordinate.size(),
            " indices was given for a mesh of ", mesh_shape.size(), " axes");
  TSR_CHECK(placements.size() <= mesh_shape.size(), placements.size(),
            " placements were given for a mesh of ", mesh_shape.size(),
            " axes; give at most one per axis");
  for (size_t i = 0; i < mesh_shape.size(); ++i) {
    TSR_CHECK(mesh_shape[i] > 0, "mesh axis ", i, " has size ", mesh_shape[i],
              "; sizes must be at least 1");
    TSR_CHECK(0 <= coordinate[i] && coordinate[i] < mesh_shape[i], "index ", coordinate[i],
              " is outside mesh axis ", i, "; it has indices 0 to ", mesh_shape[i] - 1);
  }
}

// The rank's indices per tensor dimension.
std::vector<Runs> local_runs(std::span<const int64_t> global_shape,
                             std::span<const int64_t> mesh_shape,
                             std::span<const int64_t> coordinate,
                             std::span<const Placement> placements) {
  check_mesh(mesh_shape, coordinate, placements);
  std::vector<Runs> runs(global_shape.size());
  for (size_t dim = 0; dim < runs.size(); ++dim) {
    TSR_CHECK(global_shape[dim] >= 0, "dimension ", dim, " has size ", global_shape[dim],
              "; tensor sizes must be at least 0");
    append(runs[dim], {0, global_shape[dim]});
  }
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    const auto found = cut_of(placements[axis]);
    if (!found) continue;
    TSR_CHECK(found->split_factor > 0, "placement ", to_string(placements[axis]),
              " has split factor ", found->split_factor, "; split factors must be at least 1");
    Runs& mine = runs[normal_dim(found->dim, runs.size(), placements[axis])];
    mine = cut_runs(mine, found->split_factor, mesh_shape[axis], coordinate[axis]);
  }
  return runs;
}

void check_box(const Box& box) {
  TSR_CHECK(box.shape.size() == box.offset.size(), "box ", box, " has a shape of ",
            box.shape.size(), " and an offset of ", box.offset.size(),
            " dimensions; give both for each dimension");
}

int64_t end_of(const Box& box, size_t dim) {
  return checked_add(box.offset[dim], box.shape[dim], "the end of a box");
}

}  // namespace

Span chunk(int64_t size, int64_t num_pieces, int64_t index) {
  check_piece(size, num_pieces, index);
  const int64_t piece = size / num_pieces + (size % num_pieces == 0 ? 0 : 1);
  // Avoids the product beyond the end, which could overflow.
  if (piece == 0 || index > size / piece) return {size, size};
  return {index * piece, index * piece + std::min(piece, size - index * piece)};
}

int64_t total_size(const Runs& runs) {
  int64_t size = 0;
  for (const Span& run : runs) size += run.size();
  return size;
}

Runs cut_runs(const Runs& runs, int64_t split_factor, int64_t num_pieces, int64_t index) {
  const int64_t size = total_size(runs);
  RunReader reader(runs);
  Runs mine;
  for (int64_t piece = 0; piece < split_factor; ++piece) {
    const Span outer = chunk(size, split_factor, piece);
    if (outer.size() == 0) break;  // All later pieces are empty as well.
    const Span inner = chunk(outer.size(), num_pieces, index);
    reader.read({outer.begin + inner.begin, outer.begin + inner.end}, mine);
  }
  return mine;
}

Span tensor_split(int64_t size, int64_t num_pieces, int64_t index) {
  check_piece(size, num_pieces, index);
  const int64_t small = size / num_pieces;
  const int64_t num_large = size % num_pieces;
  const int64_t begin = index * small + std::min(index, num_large);
  return {begin, begin + small + (index < num_large ? 1 : 0)};
}

int64_t Box::numel() const {
  return checked_product(shape, "the number of elements");
}

std::ostream& operator<<(std::ostream& out, const Box& box) {
  return out << "(" << join(box.shape, ",") << ")@(" << join(box.offset, ",") << ")";
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  check_box(a);
  check_box(b);
  TSR_CHECK(a.shape.size() == b.shape.size(), "boxes ", a, " and ", b,
            " have different numbers of dimensions; intersect boxes of one tensor");
  Box shared;
  for (size_t dim = 0; dim < a.shape.size(); ++dim) {
    const int64_t begin = std::max(a.offset[dim], b.offset[dim]);
    const int64_t end = std::min(end_of(a, dim), end_of(b, dim));
    if (begin >= end) return std::nullopt;
    shared.offset.push_back(begin);
    shared.shape.push_back(end - begin);
  }
  return shared;
}

Box compute_local_shape_and_global_offset(std::span<const int64_t> global_shape,
                                          std::span<const int64_t> mesh_shape,
                                          std::span<const int64_t> coordinate,
                                          std::span<const Placement> placements) {
  const std::vector<Runs> runs = local_runs(global_shape, mesh_shape, coordinate, placements);
  Box box;
  for (size_t dim = 0; dim < runs.size(); ++dim) {
    box.shape.push_back(total_size(runs[dim]));
    box.offset.push_back(runs[dim].empty() ? global_shape[dim] : runs[dim][0].begin);
  }
  return box;
}

std::vector<Box> local_boxes(std::span<const int64_t> global_shape,
                             std::span<const int64_t> mesh_shape,
                             std::span<const int64_t> coordinate,
                             std::span<const Placement> placements) {
  std::vector<Box> boxes{Box{}};
  for (const Runs& runs : local_runs(global_shape, mesh_shape, coordinate, placements)) {
    std::vector<Box> longer;
    for (const Box& box : boxes) {
      for (const Span& run : runs) {
        longer.push_back(box);
        longer.back().shape.push_back(run.size());
        longer.back().offset.push_back(run.begin);
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

}  // namespace tessera
