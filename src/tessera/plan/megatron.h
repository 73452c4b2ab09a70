#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/plan/group_kind.h"
#include "tessera/topology/layout.h"

namespace tessera {

/// The sizes from which Megatron-Core derives all its groups.
struct MegatronSizes {
  int64_t world = 1;
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t cp = 1;
  int64_t ep = 1;
  std::optional<int64_t> etp =
      std::nullopt;  // The experts' tensor-parallel size; tp when not given.
  std::string order = "tp-cp-ep-dp-pp";
};

/// Two layouts of one world, and every kind of group in the order in which Megatron creates them.
struct MegatronGroups {
  Layout decoder;  // tp, cp, dp, pp; ep is 1.
  Layout expert;   // The experts' tp, ep, dp and the same pp; cp is 1.
  std::vector<GroupKind> kinds;
};

/// Checks the sizes and derives the groups; a configuration that Megatron cannot run, or in which
/// the two layouts disagree on the pipelines, raises ConfigError.
MegatronGroups megatron_groups(const MegatronSizes& sizes);

}  // namespace tessera
