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

/// A layout as people see it: its axes in reading order, under the names that they know.
struct ShownLayout {
  struct ShownAxis {
    std::string label;  // "etp"
    std::string axis;   // Its name in the layout: "tp".
  };
  std::string title;  // "decoder"
  Layout layout;
  std::vector<ShownAxis> axes;

  /// "tp 8 × cp 1 × dp 4 × pp 2".
  std::string sizes() const;
};

/// A kind of group and what it does.
struct RoleOf {
  Role role = Role::kData;
  std::string name;  // Of the GroupSpec.
};

/// Something else that the dialect says of a layout.
struct Note {
  std::string name;    // "order"
  std::string value;   // "tp-cp-ep-dp-pp"
  std::string remark;  // ", fastest first"
};

/// A plan and how its dialect speaks of it.
struct DialectPlan {
  std::string dialect;
  Plan plan;
  std::vector<ShownLayout> layouts;
  std::vector<Note> notes = {};
  std::vector<RoleOf> roles = {};

  /// What is said above a picture: ("decoder", "tp 8 × …"), …, ("order", "tp-cp-…, fastest first").
  std::vector<std::pair<std::string, std::string>> lines() const;
  /// The kind of group that plays this role; null where every rank plays it alone.
  const GroupSpec* find(Role role) const;
  /// How many ranks play it together, at least 1.
  int64_t size(Role role) const;
  /// How many copies of the model the data-parallel ranks keep by plan: 1 where none are split.
  int64_t copies() const;
  /// Whether experts are split by plan: over ranks, or each of them into slices.
  bool has_experts() const;
};

/// A flag of a dialect. Flags of different dialects with one meaning say the same.
struct DialectFlag {
  std::string name;       // "--tensor-model-parallel-size"
  std::string shorthand;  // "--tp", or "".
  std::string meaning;    // "tp"
  std::string value;      // What stands after it: "N", "A-B-C".
  std::string help;
};

/// A flag as it was given. Values are texts: what they mean is the dialect's matter.
struct FlagValue {
  std::string flag;
  std::string value;

  friend bool operator==(const FlagValue&, const FlagValue&) = default;
};
using FlagValues = std::vector<FlagValue>;

/// "--tp 8 --pp 2".
std::string to_string(const FlagValues& flags);

/// What is asked of a dialect.
struct DialectQuery {
  int64_t world = 1;
  int64_t gpus_per_node = 8;
  FlagValues flags = {};
};

/// One of the vocabularies for layouts: its flags, what they mean, and how it would say a layout.
struct Dialect {
  std::string name;  // "megatron"
  std::vector<DialectFlag> flags;
  std::string rule;    // What is fixed in it, as a sentence's end.
  FlagValues example;  // For a world of 64.
  /// Values that do not fit together raise ConfigError.
  DialectPlan (*plan)(const DialectQuery& query);
  /// Flags that might say the layout of this plan, best first. Only trying tells.
  std::vector<FlagValues> (*attempts)(const DialectPlan& wanted);
};

std::span<const Dialect> dialects();
/// ConfigError with the nearest name where there is none of this name.
const Dialect& find_dialect(std::string_view name);

/// The plan of these flags. A flag of another dialect is refused with the one to use instead.
DialectPlan plan_in(const Dialect& dialect, const DialectQuery& query);

}  // namespace tessera
