#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

/// Golden tables that nobody wrote down: those of tests/golden, altered at random.
namespace tessera::golden {

using nlohmann::json;

/// The table altered so that all its answers stay true: other ids and another order of cases,
/// defaults spelled out or left out, and, where the format has them, other getters, columns,
/// dtypes, orders of steps and white space.
json altered(const std::string& name, json table, uint64_t seed);

/// A table of wrong answers: copies of cases, in each of which one value of the answer is changed.
struct WrongTable {
  json content;
  std::vector<std::string> ids;
};
/// Without the cases of `excepted` ids, whose answers a rule replaces.
WrongTable with_wrong_values(const std::string& name, const json& table, uint64_t seed,
                             const std::set<std::string>& excepted);

}  // namespace tessera::golden
