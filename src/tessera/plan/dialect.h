#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/plan.h"
#include "tessera/plan/role.h"

namespace tessera TSR_API {

/// A layout for display, with the dialect's labels.
struct ShownLayout {
  /// An axis under its dialect's name.
  struct ShownAxis {
    std::string label;  // "etp"
    std::string axis;   // The name in the layout: "tp".
  };
  std::string title;            // "decoder"
  Layout layout;                // Of the plan.
  std::vector<ShownAxis> axes;  // Those to display, in reading order.

  /// "tp 8 × cp 1 × dp 4 × pp 2".
  std::string sizes() const;
};

/// A kind of group and its role.
struct RoleOf {
  Role role = Role::kData;  // What groups of this kind do in training.
  std::string name;         // Of the GroupSpec.
};

/// Another property of a layout that the dialect displays.
struct Note {
  std::string name;    // "order"
  std::string value;   // "tp-cp-ep-dp-pp"
  std::string remark;  // ", fastest first"
};

/// A plan in the terms of its dialect.
struct DialectPlan {
  std::string dialect;               // Its name, e.g. "megatron".
  Plan plan;                         // With the dialect's names of groups and axes.
  std::vector<ShownLayout> layouts;  // Of all ranks, then of the experts, if any.
  std::vector<Note> notes = {};      // Displayed after the layouts.
  std::vector<RoleOf> roles = {};    // A role that is missing: each rank has it alone.

  /// The lines above a picture: ("decoder", "tp 8 × …"), …, ("order", "tp-cp-…, fastest first").
  std::vector<std::pair<std::string, std::string>> lines() const;
  /// The kind of group with this role; null if each rank has the role alone.
  const GroupSpec* find(Role role) const;
  /// The number of ranks per group of this role, at least 1.
  int64_t size(Role role) const;
  /// The replicas of the model among the data-parallel ranks; 1 if the plan does not split them.
  int64_t copies() const;
  /// Whether the plan splits experts: over ranks, or each expert into slices.
  bool has_experts() const;
};

/// A flag of a dialect. Flags of different dialects that correspond have the same `meaning`.
struct DialectFlag {
  std::string name;       // "--tensor-model-parallel-size"
  std::string shorthand;  // "--tp", or "".
  std::string meaning;    // "tp"
  std::string value;      // Placeholder for the value: "N", "A-B-C".
  std::string help;       // With the default, if it has one: "tensor-parallel size (1)".
};

/// A flag as given.
struct FlagValue {
  std::string flag;   // Its name or shorthand, e.g. "--tp".
  std::string value;  // As text; the dialect parses it.

  friend bool operator==(const FlagValue&, const FlagValue&) = default;
};
/// Flags of a command line with their values.
using FlagValues = std::vector<FlagValue>;

/// "--tp 8 --pp 2".
std::string to_string(const FlagValues& flags);

/// A layout as a user asks for it.
struct DialectQuery {
  int64_t world = 1;          // Number of ranks.
  int64_t gpus_per_node = 8;  // Ranks per node; OLMo's hsdp has one replica per node by default.
  FlagValues flags = {};      // Empty: the dialect's defaults.
};

/// One of the vocabularies for layouts: its flags, their meaning, and how it expresses a layout.
struct Dialect {
  std::string name;                // "megatron"
  std::vector<DialectFlag> flags;  // All that plan_in() accepts.
  std::string rule;                // What it does not let you choose, as the end of a sentence.
  FlagValues example;              // For a world of 64.
  /// ConfigError if values do not fit together.
  DialectPlan (*plan)(const DialectQuery& query);
  /// Candidate flags for the layout of this plan, best first; they may fail or give another layout.
  std::vector<FlagValues> (*attempts)(const DialectPlan& wanted);
};

/// All dialects.
std::span<const Dialect> dialects();
/// ConfigError with the nearest name if there is no such dialect.
const Dialect& find_dialect(std::string_view name);

/// The plan of these flags. Refuses a flag of another dialect and names the one to use instead.
DialectPlan plan_in(const Dialect& dialect, const DialectQuery& query);

}  // namespace tessera
