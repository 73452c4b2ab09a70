#pragma once

#include <span>
#include <string>

#include "tessera/base/environment.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A rule for one environment variable, applied before groups are created.
struct VariableRule {
  /// What happens to the variable.
  enum class Action {
    kRemove,
    kSet,
    kSetIfAbsent,
    kRefuse,  // Refuses this value.
  };
  std::string name;              // Of the environment variable.
  Action action = Action::kSet;  // What realize() does with it.
  std::string value = "";        // To set, or to refuse; unused by kRemove.
  std::string reason = "";       // For kRefuse: what the value breaks, and the fix.

  friend bool operator==(const VariableRule&, const VariableRule&) = default;
};

/// ConfigError if a variable has a value that a rule refuses. Changes nothing.
void check_variables(std::span<const VariableRule> rules, const Environment& environment);

}  // namespace tessera
