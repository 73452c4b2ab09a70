#include "tessera/plan/variable_rule.h"

#include "tessera/base/check.h"

namespace tessera {

void check_variables(std::span<const VariableRule> rules, const Environment& environment) {
  for (const VariableRule& rule : rules) {
    if (rule.action != VariableRule::Action::kRefuse) continue;
    TSR_CHECK(environment(rule.name) != rule.value, rule.name, "=", rule.value, " ", rule.reason);
  }
}

}  // namespace tessera
