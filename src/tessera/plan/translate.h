#pragma once

#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/plan/dialect.h"

namespace tessera TSR_API {

/// The first difference between two layouts.
struct LayoutDifference {
  std::string kind;  // "dp", "tp", "cp", "pp", "ep", "etp" or "shards".
  RankGroup from;    // A group of the first layout.
  RankGroup to;      // The group of its first rank in the second layout.

  friend bool operator==(const LayoutDifference&, const LayoutDifference&) = default;
};

/// Nothing if both are the same layout: the same world, and the same sets of ranks as data-,
/// tensor-, context-, pipeline- and expert-parallel groups. If `from` has experts, also the same
/// sets of ranks that shard each expert; if it has several replicas of the model, also the same
/// sets of ranks that shard a replica. A kind that a layout does not have counts as groups of one
/// rank. The order of ranks in a group does not matter.
std::optional<LayoutDifference> first_difference(const DialectPlan& from, const DialectPlan& to);

/// A layout in the flags of another dialect, or why there are none.
struct Translation {
  std::optional<FlagValues> flags = std::nullopt;  // Without --world.

  FlagValues nearest = {};   // The best attempt, if `flags` is empty.
  std::string refusal = "";  // The dialect's error, if it refuses that.
  std::optional<LayoutDifference> difference = std::nullopt;  // The first group that differs.
  std::string why = "";                                       // The dialect's rule.
};

/// ConfigError for worlds of more than 65,536 ranks, because the cost grows with the world.
Translation translate(const DialectPlan& from, const Dialect& to, int64_t gpus_per_node = 8);

}  // namespace tessera
