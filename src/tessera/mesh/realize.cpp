#include "tessera/mesh/realize.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "tessera/base/check.h"
#include "tessera/base/reversed.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"

namespace tessera {
namespace {

constexpr const char* kSharpVariable = "NCCL_COLLNET_ENABLE";

void set_variable(const std::string& name, const std::optional<std::string>& value) {
  if (value) {
    setenv(name.c_str(), value->c_str(), 1);
  } else {
    unsetenv(name.c_str());
  }
}

// Changes environment variables and restores them at its end, unless they are kept.
class ChangedVariables {
 public:
  ChangedVariables() = default;
  ChangedVariables(const ChangedVariables&) = delete;
  ChangedVariables& operator=(const ChangedVariables&) = delete;
  ~ChangedVariables() {
    for (const auto& [name, value] : reversed(before_)) set_variable(name, value);
  }

  void set(const std::string& name, const std::optional<std::string>& value) {
    before_.emplace_back(name, process_environment()(name));
    set_variable(name, value);
  }
  void keep() { before_.clear(); }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

void obey(const VariableRule& rule, ChangedVariables& variables) {
  using Action = VariableRule::Action;
  switch (rule.action) {
    case Action::kRemove:
      variables.set(rule.name, std::nullopt);
      break;
    case Action::kSet:
      variables.set(rule.name, rule.value);
      break;
    case Action::kSetIfAbsent:
      if (!process_environment()(rule.name)) variables.set(rule.name, rule.value);
      break;
    case Action::kRefuse:  // All ranks have checked that it does not apply.
      break;
  }
}

Backend backend_of(const GroupSpec& spec, const WorldHandle& world) {
  switch (spec.backend) {
    case GroupBackend::kDefault:
      return world.backend();
    case GroupBackend::kGloo:
      return Backend::kGloo;
    case GroupBackend::kNccl:
      return Backend::kNccl;
    case GroupBackend::kUcc:
      TSR_CHECK(world.backend() == Backend::kFake, spec.name,
                " needs UCC, but Tessera has no UCC back end; choose nccl, or leave the back end "
                "to the device");
      return Backend::kFake;
  }
  return Backend::kAuto;
}

// All ranks of the world take part in a split. They do if the layout has all of them, and its lines
// are whole: then each rank is in one. Lines of a layout with a list of ranks may be those of
// another layout on some ranks only. Groups for SHARP must connect one by one, with its variable.
bool can_split(const GroupSpec& spec, const WorldHandle& world) {
  const Layout& layout = spec.groups.layout();
  return world.splits_nccl() && !spec.sharp && layout.size() == world.size() &&
         !layout.is_listed() && std::holds_alternative<Whole>(spec.groups.selection());
}

GroupRequest request_of(PlannedGroup group, const WorldHandle& world) {
  const GroupSpec& spec = *group.spec;
  return {std::move(group.ranks),
          {.name = spec.name,
           .lane = spec.lane,
           .backend = backend_of(spec, world),
           .timeout = spec.timeout,
           .nccl = spec.options,
           .sharp = spec.sharp,
           .split = can_split(spec, world)}};
}

bool is_sharp(const GroupRequest& request) {
  return request.options.sharp && request.options.backend == Backend::kNccl;
}

// NCCL connects and reads the variable in the first operation of a communicator: the barrier.
std::vector<Group> make_sharp(std::span<const GroupRequest> requests, const WorldHandle& world) {
  ChangedVariables variables;
  variables.set(kSharpVariable, "1");
  std::vector<Group> groups = world.make_groups(requests);
  for (const Group& group : groups) barrier(group);
  return groups;
}

std::vector<Group> make_in_order(std::span<const GroupRequest> requests, const WorldHandle& world) {
  std::vector<Group> groups;
  while (!requests.empty()) {
    const bool sharp = is_sharp(requests.front());
    const auto end = std::ranges::find(requests, !sharp, is_sharp);
    const auto run = requests.first(static_cast<size_t>(end - requests.begin()));
    for (Group& group : sharp ? make_sharp(run, world) : world.make_groups(run)) {
      groups.push_back(std::move(group));
    }
    requests = requests.subspan(run.size());
  }
  return groups;
}

std::string text_of(const Selection& selection) {
  if (const auto* cut = std::get_if<Cut>(&selection)) {
    return concat("cut into ", cut->size, " every ", cut->stride);
  }
  const auto* const chosen = std::get_if<Chosen>(&selection);
  if (chosen == nullptr) return concat("selection ", selection.index());
  std::vector<std::string> lists;
  for (const RankGroup& list : chosen->lists) lists.push_back(join(list, " "));
  return concat("ranks ", join(lists, ", "));
}

template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? concat(*value) : "unset";
}

std::string text_of(const NcclOptions& options) {
  return concat(options.high_priority_stream ? "high priority, " : "", "cga_cluster_size ",
                text_of(options.cga_cluster_size), ", min_ctas ", text_of(options.min_ctas),
                ", max_ctas ", text_of(options.max_ctas), ", net_name ", text_of(options.net_name));
}

std::string text_of(const GroupSpec& spec) {
  const GroupFamily& family = spec.groups;
  return concat("group ", spec.name, " along ", join(family.axes(), ","), " of ", family.layout(),
                ", ", text_of(family.selection()), ", ", to_string(spec.backend), ", ",
                to_string(spec.lane), ", timeout ",
                spec.timeout ? concat(spec.timeout->count(), " min") : "the world's",
                spec.sharp ? ", sharp, " : ", ", text_of(spec.options));
}

// With different plans, ranks would wait in groups that others do not make.
void check_same_plan(const Plan& plan, const WorldHandle& world) {
  std::vector<std::string> lines;
  for (const GroupSpec& spec : plan.specs()) {
    lines.push_back(concat(text_of(spec), can_split(spec, world) ? ", split" : ""));
  }
  check_same(world.group(), "the plans differ on the ranks", lines);
}

}  // namespace

RealizedPlan::RealizedPlan(Plan plan, std::vector<Group> groups)
    : plan_(std::move(plan)), groups_(std::move(groups)) {}

const Group* RealizedPlan::find(std::string_view name) const& {
  const auto at =
      std::ranges::find_if(groups_, [&](const Group& group) { return group.name() == name; });
  return at == groups_.end() ? nullptr : &*at;
}

const Group& RealizedPlan::group(std::string_view name) const& {
  if (const Group* const found = find(name)) return *found;
  plan_.spec(name);  // If the plan has none, the error has the nearest name.
  throw ConfigError(concat("this rank is not in a group ", name, " of the plan"));
}

RealizedPlan realize(const Plan& plan, const WorldHandle& world) {
  TSR_CHECK(plan.world() == world.size(), "a plan for ", plan.world(),
            " ranks cannot be realized in a world of ", world.size(),
            "; plan for that number of ranks");
  std::vector<GroupRequest> requests;
  for (PlannedGroup& group : plan.groups_of(world.rank())) {
    requests.push_back(request_of(std::move(group), world));
  }
  check_together(world, "the plan's rule for environment variables",
                 [&] { check_variables(plan.variables(), process_environment()); });
  check_same_plan(plan, world);
  ChangedVariables variables;
  for (const VariableRule& rule : plan.variables()) obey(rule, variables);
  std::vector<Group> groups = make_in_order(requests, world);
  variables.keep();
  return RealizedPlan(plan, std::move(groups));
}

}  // namespace tessera
