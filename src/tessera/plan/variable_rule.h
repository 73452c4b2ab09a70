#pragma once

#include <span>
#include <string>

#include "tessera/base/environment.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// What must hold of one of the process's variables, or be done to it, before groups are made.
struct VariableRule {
  enum class Action {
    kRemove,
    kSet,
    kSetIfAbsent,
    kRefuse,  // Where it has this value.
  };
  std::string name;
  Action action = Action::kSet;
  std::string value = "";
  std::string reason = "";  // Of a refusal: what the value breaks, and the fix.

  friend bool operator==(const VariableRule&, const VariableRule&) = default;
};

/// ConfigError where a variable has a value that a rule refuses. Changes nothing.
void check_variables(std::span<const VariableRule> rules, const Environment& environment);

}  // namespace tessera
