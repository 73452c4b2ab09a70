#include "tessera/plan/translate.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr int64_t kLargestWorld = 65'536;

RankGroup sorted(RankGroup group) {
  std::ranges::sort(group);
  return group;
}

// Visits each group of one plan once, so the cost is linear in the world size.
std::optional<LayoutDifference> difference_of(Role role, const DialectPlan& from,
                                              const DialectPlan& to) {
  const GroupSpec* const ours = from.find(role);
  const GroupSpec* const theirs = to.find(role);
  const int64_t count = ours == nullptr ? from.plan.world() : ours->groups.count();
  for (int64_t i = 0; i < count; ++i) {
    RankGroup a = ours == nullptr ? RankGroup{GlobalRank{i}} : sorted(ours->groups.group(i));
    RankGroup b{a.front()};
    if (theirs != nullptr) b = sorted(theirs->groups.group_of(a.front()).value_or(b));
    if (a != b) return LayoutDifference{to_string(role), std::move(a), std::move(b)};
  }
  return std::nullopt;
}

// The result of one attempt. If it is refused, the difference is that of the longest accepted
// prefix: flags are in the order in which they depend on each other.
Translation attempt(const DialectPlan& from, const Dialect& to, DialectQuery query) {
  Translation answer{.nearest = query.flags, .why = to.rule};
  while (true) {
    try {
      answer.difference = first_difference(from, plan_in(to, query));
      if (!answer.difference && answer.refusal.empty()) answer.flags = query.flags;
      return answer;
    } catch (const ConfigError& error) {
      if (answer.refusal.empty()) answer.refusal = error.what();
      if (query.flags.empty()) return answer;
      query.flags.pop_back();
    }
  }
}

}  // namespace

std::optional<LayoutDifference> first_difference(const DialectPlan& from, const DialectPlan& to) {
  TSR_CHECK(from.plan.world() == to.plan.world(), "layouts of ", from.plan.world(), " and ",
            to.plan.world(), " ranks cannot be compared; choose the same world size");
  std::vector<Role> roles(kLayoutRoles.begin(), kLayoutRoles.end());
  if (from.has_experts()) roles.push_back(Role::kExpertTensor);
  if (from.copies() > 1) roles.push_back(Role::kShards);
  for (const Role role : roles) {
    if (auto difference = difference_of(role, from, to)) return difference;
  }
  return std::nullopt;
}

Translation translate(const DialectPlan& from, const Dialect& to, int64_t gpus_per_node) {
  const int64_t world = from.plan.world();
  TSR_CHECK(world <= kLargestWorld, "a layout of ", world,
            " ranks is too large to translate; choose at most ", kLargestWorld,
            " ranks with the same sizes");
  std::vector<Translation> failed;
  for (const FlagValues& flags : to.attempts(from)) {
    Translation answer = attempt(from, to, {world, gpus_per_node, flags});
    if (answer.flags) return answer;
    failed.push_back(std::move(answer));
  }
  return failed.front();  // The nearest: attempts are ordered best first.
}

}  // namespace tessera
