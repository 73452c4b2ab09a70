#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/placement.h"

namespace tessera TSR_API {

/// A half-open run of indices along one dimension.
struct Span {
  int64_t begin = 0;  // The first index.
  int64_t end = 0;    // The index after the last one.

  /// The number of indices.
  int64_t size() const { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

/// Piece `index` of `num_pieces` by torch.chunk's rule: pieces of ceil(size / num_pieces), then a
/// shorter one, then empty ones at the end. 5 over 4: 2, 2, 1, 0.
Span chunk(int64_t size, int64_t num_pieces, int64_t index);

/// Piece `index` of `num_pieces` by torch.tensor_split's rule: sizes differ by at most one, the
/// larger first. 5 over 4: 2, 1, 1, 1.
Span tensor_split(int64_t size, int64_t num_pieces, int64_t index);

/// The indices of one dimension that a rank holds, as runs in local order.
using Runs = std::vector<Span>;

/// The number of elements of all runs.
int64_t total_size(const Runs& runs);

/// The part of these indices for rank `index` of an axis of `num_pieces` ranks: splits them into
/// `split_factor` pieces, and each of these over the axis. A plain shard has factor 1.
Runs cut_runs(const Runs& runs, int64_t split_factor, int64_t num_pieces, int64_t index);

/// The position of a shard in its global tensor.
struct Box {
  std::vector<int64_t> shape;   // Elements along each dimension.
  std::vector<int64_t> offset;  // Global index of the first element.

  /// Product of the shape; 1 without dimensions.
  int64_t numel() const;
  friend bool operator==(const Box&, const Box&) = default;
};
/// Writes offsets and sizes.
std::ostream& operator<<(std::ostream& out, const Box& box);

/// The intersection of two boxes of one tensor; nothing if it is empty.
std::optional<Box> intersect(const Box& a, const Box& b);

/// The shape of the shard on the rank at `coordinate` of a mesh, and the global index of its first
/// element. An empty shard lies at the end of each dimension in which it is empty.
///
/// Placement i belongs to mesh axis i, outer to inner; missing ones mean Replicate. Negative
/// dimensions count from the end. A strided shard may lie in several pieces: see local_boxes.
Box compute_local_shape_and_global_offset(std::span<const int64_t> global_shape,
                                          std::span<const int64_t> mesh_shape,
                                          std::span<const int64_t> coordinate,
                                          std::span<const Placement> placements);

/// The boxes of the same shard, in the row-major order of the local tensor's grid of pieces. One
/// box unless a strided shard left gaps; none for an empty shard.
std::vector<Box> local_boxes(std::span<const int64_t> global_shape,
                             std::span<const int64_t> mesh_shape,
                             std::span<const int64_t> coordinate,
                             std::span<const Placement> placements);

}  // namespace tessera
