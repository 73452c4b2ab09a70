#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>

#include "tessera/base/text.h"
#include "tessera/comm/objects.h"
#include "tests/testkit/ranks.h"

namespace tessera::testkit {

/// How many random inputs a property is tried with: as RC_PARAMS says (max_success=…), or `usual`.
inline int64_t num_cases(int64_t usual) {
  const char* const parameters = std::getenv("RC_PARAMS");
  for (const std::string_view word : split(parameters == nullptr ? "" : parameters, ' ')) {
    if (!word.starts_with("max_success=")) continue;
    return to_integer(word.substr(std::string_view("max_success=").size())).value_or(usual);
  }
  return usual;
}

/// Calls `body` with random inputs, the same on every rank: rank 0 draws the seed. TESSERA_SEED
/// repeats what a failure printed.
template <class Input>
void for_random_inputs(const World& world, int64_t usual, const std::function<Input()>& draw,
                       const std::function<void(const Input&)>& body) {
  const char* const fixed = std::getenv("TESSERA_SEED");
  const uint64_t own =
      fixed == nullptr ? std::random_device{}() : std::strtoull(fixed, nullptr, 10);
  const auto seed = broadcast_object(own, GroupRank{0}, world.group());
  for (int64_t i = 0; i < num_cases(usual); ++i) {
    const auto number = seed + static_cast<uint64_t>(i);
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, concat("TESSERA_SEED=", number));
    body(rc::gen::exec(draw)(rc::Random(number), rc::kNominalSize).value());
  }
}

}  // namespace tessera::testkit
