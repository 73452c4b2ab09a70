#pragma once

#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// The runs of a flattened tensor that one rank holds, in this order.
using FlatSpans = std::vector<Span>;

/// Which runs of the flattened tensor each rank of a group holds.
///
/// The runs must cover every element once: ConfigError if they overlap, leave holes or exceed the
/// tensor. A rank may hold several runs, in any order, or none.
class ShardingSpec {
 public:
  /// `unsharded_flattened_offsets[r]` is what group rank r holds.
  ShardingSpec(std::vector<int64_t> unsharded_shape,
               std::vector<FlatSpans> unsharded_flattened_offsets);
  /// One piece per rank, like torch.chunk(): 5 elements over 4 ranks are 2, 2, 1, 0.
  static ShardingSpec even(std::vector<int64_t> unsharded_shape, int64_t num_ranks);

  /// Shape of the full tensor.
  const std::vector<int64_t>& unsharded_shape() const& { return shape_; }
  std::vector<int64_t> unsharded_shape() && { return std::move(shape_); }
  /// The runs of each rank, by group rank.
  const std::vector<FlatSpans>& unsharded_flattened_offsets() const& { return offsets_; }
  std::vector<FlatSpans> unsharded_flattened_offsets() && { return std::move(offsets_); }
  /// The flattened unsharded shape.
  std::vector<int64_t> unsharded_flattened_shape() const { return {numel_}; }
  /// Elements of the full tensor.
  int64_t unsharded_numel() const { return numel_; }
  /// Ranks of the group, including those that hold nothing.
  int64_t num_ranks() const { return static_cast<int64_t>(offsets_.size()); }
  /// Number of elements per rank.
  const std::vector<int64_t>& sharded_numels() const& { return numels_; }
  std::vector<int64_t> sharded_numels() && { return std::move(numels_); }
  /// Elements of the rank that holds the most.
  int64_t largest_shard() const;

  friend bool operator==(const ShardingSpec&, const ShardingSpec&) = default;
  /// "(2,3) as [0,2)+[4,6) | [2,4)".
  friend TSR_API std::ostream& operator<<(std::ostream& out, const ShardingSpec& spec);

 private:
  std::vector<int64_t> shape_;
  std::vector<FlatSpans> offsets_;
  int64_t numel_;
  std::vector<int64_t> numels_;
};

}  // namespace tessera
