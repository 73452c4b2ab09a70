#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/comm/world.h"
#include "tessera/plan/plan.h"

namespace tessera TSR_API {

/// A plan and its live groups that contain this rank.
class RealizedPlan {
 public:
  RealizedPlan(Plan plan, std::vector<Group> groups);

  /// The whole plan, with the groups of other ranks.
  const Plan& plan() const& { return plan_; }
  Plan plan() && { return std::move(plan_); }
  /// In the order of creation. Each has its spec's name.
  std::span<const Group> groups() const& { return groups_; }
  std::vector<Group> groups() && { return std::move(groups_); }
  /// The group of this name; null if the plan has none or this rank is not in it.
  const Group* find(std::string_view name) const&;
  const Group* find(std::string_view name) && = delete;  // The pointer would dangle.
  /// The same; ConfigError if there is none.
  const Group& group(std::string_view name) const&;
  Group group(std::string_view name) && { return group(name); }

 private:
  Plan plan_;
  std::vector<Group> groups_;
};

/// **Collective.** Applies the plan's rules for environment variables and makes every communicator
/// of this rank in the plan's order, so that ranks cannot deadlock.
///
/// The ranks first check that the rules hold on each of them and that they have the same plan: if
/// not, all throw ConfigError, which names the group that differs. If anything fails, the variables
/// are restored. Only fake worlds support UCC; ConfigError for a plan with UCC elsewhere.
RealizedPlan realize(const Plan& plan, const WorldHandle& world);

}  // namespace tessera
