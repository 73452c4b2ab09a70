#pragma once

#include <nlohmann/json.hpp>

#include "tests/e2e/dice.h"

namespace tessera::golden {

/// A case of context_balance with another length, for which its answer stays true.
void alter_context_balance(nlohmann::json& one, Dice& dice);

}  // namespace tessera::golden
