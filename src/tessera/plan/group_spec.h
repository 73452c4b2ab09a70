#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/group_family.h"
#include "tessera/plan/lane.h"
#include "tessera/plan/nccl_options.h"
#include "tessera/topology/layout.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// The back end that a group asks for.
enum class GroupBackend {
  kDefault,  // That of the world.
  kGloo,
  kNccl,
  kUcc,
};

/// The back end's name.
const char* to_string(GroupBackend backend);

/// When the groups of a spec are created.
enum class Made {
  kAfterAll,    // After all groups of the previous specs.
  kAfterLine,   // Line by line: after the previous spec's groups of the same line.
  kAfterGroup,  // Group by group: after the previous spec's group of the same ranks (a twin).
};

/// One kind of group of a plan: its members, name, back end and options.
struct GroupSpec {
  std::string name;    // The name in the dialect, e.g. TENSOR_MODEL_PARALLEL_GROUP.
  std::string label;   // A short form for display, e.g. "tp".
  GroupFamily groups;  // The members.
  GroupBackend backend = GroupBackend::kDefault;               // Default: the world's.
  std::optional<std::chrono::minutes> timeout = std::nullopt;  // Default: the world's.
  NcclOptions options = {};                                    // Other back ends ignore them.
  Lane lane = Lane::kCompute;   // Kinds that may run concurrently have different ones.
  bool sharp = false;           // Created with NCCL_COLLNET_ENABLE=1: the switches reduce (SHARP).
  Made made = Made::kAfterAll;  // When its groups are created.

  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

/// The same groups on Gloo, each created right after its original. Checkpoints use them while
/// training communicates on the originals.
GroupSpec gloo_twin(const GroupSpec& spec, std::string name);

/// The ranks as a layout with one axis, "ranks". ConfigError for ranks outside 0..world-1 and
/// repeated ranks.
Layout line_of(std::span<const GlobalRank> ranks, int64_t world);

/// Names and options of the groups of a hierarchy.
struct HierarchyOptions {
  std::string description;  // Names are HIERARCHICAL_<description>_L<level>.
  std::string label = "";   // Labels are "<label> L<level>".
  std::optional<std::vector<NcclOptions>> nccl = std::nullopt;  // One per level, if any.
  bool gloo_twins = false;  // HIERARCHICAL_<description>_GLOO_L<level>, with the same options.
  std::optional<std::chrono::minutes> timeout = std::nullopt;  // Default: the world's.
  Lane lane = Lane::kCompute;   // Of all levels; Gloo twins use kControl.
  bool sharp = false;           // Of all levels: the switches reduce (SHARP).
  Made made = Made::kAfterAll;  // Level 0; the others follow it line by line.
};

/// Megatron's create_hierarchical_groups for every line of the layout along the axes.
///
/// Level 0 cuts a line into consecutive runs of sizes[0]; level 1 joins sizes[1] of those runs
/// member by member, and so on. 16 ranks with sizes {2,2,4}: (0,1)…, (0,2)(1,3)…, (0,4,8,12)….
/// The product of the sizes must be the number of ranks; no sizes give no levels.
std::vector<GroupSpec> hierarchical_specs(const Layout& layout, const AxisNames& axes,
                                          std::span<const int64_t> sizes,
                                          const HierarchyOptions& options);

/// Megatron's create_hybrid_dp_cp_groups for every line: chunks of 2, 4, 8, … ranks, strictly below
/// the largest power of two that fits into the line; names are HYBRID_DP_CP_GROUP_<size>.
std::vector<GroupSpec> hybrid_specs(const Layout& layout, const AxisNames& axes,
                                    const NcclOptions& options = {});

}  // namespace tessera
