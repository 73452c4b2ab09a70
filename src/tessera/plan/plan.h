#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/group_spec.h"
#include "tessera/plan/variable_rule.h"
#include "tessera/topology/layout.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// A layout of a plan and its name.
struct NamedLayout {
  std::string name;  // For Plan::layout(), e.g. "decoder".
  Layout layout;     // The grid of ranks.

  friend bool operator==(const NamedLayout&, const NamedLayout&) = default;
};

/// One group of a plan.
struct PlannedGroup {
  const GroupSpec* spec = nullptr;  // Its kind, owned by the plan.
  RankGroup ranks;                  // In the order of their group ranks.
};

/// The layouts and groups of a configuration, the groups in the order of creation. A value that is
/// the same on every rank; needs no processes and no torch.
///
///   const Plan plan = megatron_plan(64, {.tensor_model_parallel_size = 8});
///   plan.group_of(GlobalRank{5}, "TENSOR_MODEL_PARALLEL_GROUP");   // 0 1 2 3 4 5 6 7
///   for (const auto& [spec, ranks] : plan.groups_of(GlobalRank{5})) …
class Plan {
 public:
  /// ConfigError for repeated names, and for specs that are to be created together but have
  /// different lines.
  Plan(int64_t world, std::vector<NamedLayout> layouts, std::vector<GroupSpec> specs,
       std::vector<VariableRule> variables = {});

  /// The number of ranks.
  int64_t world() const { return world_; }
  /// The layout of this name; ConfigError with the nearest name if there is none.
  const Layout& layout(std::string_view name) const&;
  Layout layout(std::string_view name) && { return layout(name); }
  /// One per kind of group, in the order of creation.
  std::span<const GroupSpec> specs() const& { return specs_; }
  std::vector<GroupSpec> specs() && { return std::move(specs_); }
  /// Rules for environment variables that apply before groups are created.
  std::span<const VariableRule> variables() const& { return variables_; }
  std::vector<VariableRule> variables() && { return std::move(variables_); }

  /// The spec of this name; null if there is none.
  const GroupSpec* find(std::string_view name) const&;
  const GroupSpec* find(std::string_view name) && = delete;  // It would dangle.
  /// The spec of this name; ConfigError with the nearest name if there is none.
  const GroupSpec& spec(std::string_view name) const&;
  GroupSpec spec(std::string_view name) && { return spec(name); }

  /// The group of this name that contains `rank`, in O(line length); nothing if there is none.
  std::optional<RankGroup> group_of(GlobalRank rank, std::string_view name) const;
  /// Every group of `rank`, in the order of creation.
  std::vector<PlannedGroup> groups_of(GlobalRank rank) const&;
  std::vector<PlannedGroup> groups_of(GlobalRank rank) && = delete;  // Their specs are the plan's.
  /// The index of that group among all groups of all ranks in the order of creation.
  std::optional<int64_t> creation_index(GlobalRank rank, std::string_view name) const;

  /// The number of groups over all ranks.
  int64_t num_groups() const;
  /// Gets the kind of a group, and its ranks.
  using Visitor = std::function<void(const GroupSpec& spec, const RankGroup& ranks)>;
  /// Visits all groups of all ranks in the order of creation, each with its ranks as listed there.
  void for_each_group(const Visitor& visit) const;

  /// One line per spec: name, size, count, back end and lane.
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Plan& plan) {
    return out << plan.to_string();
  }
  friend bool operator==(const Plan&, const Plan&) = default;

 private:
  /// A spec and its twins, created group by group.
  struct Block {
    size_t first = 0;  // In specs_.
    size_t num_specs = 1;
    int64_t offset = 0;  // Groups of the same line created before.

    friend bool operator==(const Block&, const Block&) = default;
  };
  /// Blocks created line by line.
  struct Step {
    std::vector<Block> blocks;
    int64_t groups_per_line = 0;
    int64_t first_group = 0;  // Groups created before.

    friend bool operator==(const Step&, const Step&) = default;
  };

  const GroupFamily& family(const Block& block) const { return specs_[block.first].groups; }
  void add_to_steps(size_t spec);
  void check_spec(size_t index) const;

  int64_t world_;
  std::vector<NamedLayout> layouts_;
  std::vector<GroupSpec> specs_;
  std::vector<VariableRule> variables_;
  std::vector<Step> steps_;
};

}  // namespace tessera
