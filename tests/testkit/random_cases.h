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

/// Calls `body` with random inputs, the same on every rank: rank 0 draws the seed. `usual` times,
/// or ten times as often with TESSERA_SOAK. TESSERA_SEED repeats the seed of a failure.
template <class Input>
void for_random_inputs(const World& world, int64_t usual, const std::function<Input()>& draw,
                       const std::function<void(const Input&)>& body) {
  const char* const fixed = std::getenv("TESSERA_SEED");
  const uint64_t own =
      fixed == nullptr ? std::random_device{}() : std::strtoull(fixed, nullptr, 10);
  const auto seed = broadcast_object(own, GroupRank{0}, world.group());
  const int64_t count = std::getenv("TESSERA_SOAK") == nullptr ? usual : 10 * usual;
  for (int64_t i = 0; i < count; ++i) {
    const auto number = seed + static_cast<uint64_t>(i);
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, concat("TESSERA_SEED=", number));
    body(rc::gen::exec(draw)(rc::Random(number), rc::kNominalSize).value());
  }
}

}  // namespace tessera::testkit
