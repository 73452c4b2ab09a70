#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/placements.h"

namespace tessera TSR_API {

/// A tensor dimension cut by a mesh axis; see cut_runs().
struct AxisCut {
  size_t axis = 0;
  int64_t split_factor = 1;
  friend bool operator==(const AxisCut&, const AxisCut&) = default;
};

/// One move of a redistribution, along one mesh axis.
struct RedistributeStep {
  enum class Kind {
    kCut,            // Whole to shard: every rank keeps its piece. Nothing is sent.
    kReduceScatter,  // Partial to shard.
    kExchange,       // A shard of one dimension to a shard of another: all-to-all.
    kReduce,         // Partial to whole: all-reduce.
    kGather,         // Shard to whole: all-gather.
  };
  Kind kind = Kind::kCut;
  size_t axis = 0;
  ReduceOp op = ReduceOp::kSum;     // Of the reductions.
  size_t from_dim = 0;              // What a gather or exchange makes whole, ...
  int64_t from_factor = 1;          // ... its split factor, ...
  std::vector<AxisCut> outer = {};  // ... and the cuts of that dimension that stay.
  size_t to_dim = 0;                // What is cut, and its split factor.
  int64_t to_factor = 1;

  friend bool operator==(const RedistributeStep&, const RedistributeStep&) = default;
  /// "axis 0: all-gather dim 1".
  friend TSR_API std::ostream& operator<<(std::ostream& out, const RedistributeStep& step);
};

/// How a tensor goes from one list of placements to another, the same on every rank.
///
/// The cuts of a dimension are a list, in the order in which they are made; what both lists begin
/// with stays, what comes after it in `from` is undone from its end, what comes after it in `to` is
/// made. A strided shard that stands for "cut after the inner axes" counts as just that, so that
/// gathering it moves no more than it must.
///
/// Of the moves that are possible the cheapest goes first: cuts make what follows smaller, and
/// gathers make it larger. Placements must be checked_placements(); becoming Partial is refused.
std::vector<RedistributeStep> redistribute_plan(std::span<const int64_t> shape,
                                                std::span<const int64_t> mesh_shape,
                                                std::span<const Placement> from,
                                                std::span<const Placement> to);

}  // namespace tessera
