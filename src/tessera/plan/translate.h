#pragma once

#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/plan/dialect.h"

namespace tessera TSR_API {

/// Where two layouts differ first.
struct LayoutDifference {
  std::string kind;  // "dp", "tp", "cp", "pp", "ep", "etp" or "shards".
  RankGroup from;    // A group of the one layout, and
  RankGroup to;      // the group of its first rank in the other.

  friend bool operator==(const LayoutDifference&, const LayoutDifference&) = default;
};

/// Nothing where the two are the same layout: the same world, and the same sets of ranks as
/// data-, tensor-, context-, pipeline- and expert-parallel groups. If `from` has experts, also the
/// same sets of ranks that share each expert; if it has several replicas of the model, also the
/// same sets of ranks that share a replica. A kind that a layout does not have counts as groups of
/// one rank. The order of ranks in a group does not count.
std::optional<LayoutDifference> first_difference(const DialectPlan& from, const DialectPlan& to);

/// How a layout is said in another dialect, or why it is not.
struct Translation {
  std::optional<FlagValues> flags = std::nullopt;  // Besides --world.

  FlagValues nearest = {};   // The best attempt, and where it was none:
  std::string refusal = "";  // what the dialect answers to it, if it refuses it,
  std::optional<LayoutDifference> difference = std::nullopt;  // the first group that differs,
  std::string why = "";                                       // and the dialect's rule.
};

/// ConfigError for worlds of more than 65,536 ranks: every group is looked at.
Translation translate(const DialectPlan& from, const Dialect& to, int64_t gpus_per_node = 8);

}  // namespace tessera
