#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/placements.h"

namespace tessera TSR_API {

/// A tensor dimension that is sharded by a mesh axis; see cut_runs().
struct AxisCut {
  size_t axis = 0;           // Index of the mesh axis.
  int64_t split_factor = 1;  // Pieces that are each sharded over the axis; see StridedShard.
  friend bool operator==(const AxisCut&, const AxisCut&) = default;
};

/// One step of a redistribution, along one mesh axis.
struct RedistributeStep {
  /// What the ranks of the axis do.
  enum class Kind {
    kCut,            // Replicate to Shard: every rank keeps its piece. Nothing is sent.
    kReduceScatter,  // Partial to Shard.
    kExchange,       // Shard of one dimension to Shard of another: all-to-all.
    kReduce,         // Partial to Replicate: all-reduce.
    kGather,         // Shard to Replicate: all-gather.
  };
  Kind kind = Kind::kCut;           // Determines which fields below are used.
  size_t axis = 0;                  // Index of the mesh axis.
  ReduceOp op = ReduceOp::kSum;     // For kReduce and kReduceScatter.
  size_t from_dim = 0;              // Dimension that kGather and kExchange unshard.
  int64_t from_factor = 1;          // Split factor of from_dim.
  std::vector<AxisCut> outer = {};  // The cuts of from_dim that stay.
  size_t to_dim = 0;                // Dimension that the step shards.
  int64_t to_factor = 1;            // Split factor of to_dim.

  friend bool operator==(const RedistributeStep&, const RedistributeStep&) = default;
  /// "axis 0: all-gather dim 1".
  friend TSR_API std::ostream& operator<<(std::ostream& out, const RedistributeStep& step);
};

/// The steps from one list of placements to another; the same on every rank.
///
/// Each dimension has a list of cuts, in the order in which they are made. The common prefix of
/// both lists stays; the rest of `from` is undone from its end, then the rest of `to` is made. A
/// strided shard that means "cut after the inner axes" is treated as such, so that gathering it
/// sends no more than needed.
///
/// The cheapest possible step goes first: cuts make later steps smaller, gathers make them larger.
/// Placements must be checked_placements(). ConfigError if an axis would become Partial.
std::vector<RedistributeStep> redistribute_plan(std::span<const int64_t> shape,
                                                std::span<const int64_t> mesh_shape,
                                                std::span<const Placement> from,
                                                std::span<const Placement> to);

}  // namespace tessera
