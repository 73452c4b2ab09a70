#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/collectives.h"
#include "tessera/comm/world.h"
#include "tessera/plan/plan.h"

/// What the tests of the dialects' groups on real ranks have in common.
namespace tessera::testkit {

/// A world of its own, current while the body runs: it begins without communicators.
inline void in_fresh_world(const std::function<void(World&)>& body) {
  World& world = World::make_current(
      World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)}));
  body(world);
  world.close();
  World::clear_current();
}

/// Sums that tell who is in a group: of the ranks' numbers, and of one bit a rank.
struct RankSums {
  int64_t numbers = 0;
  int64_t bits = 0;

  friend bool operator==(const RankSums&, const RankSums&) = default;
};

inline RankSums sums_of(const RankGroup& ranks) {
  RankSums sums;
  for (const GlobalRank rank : ranks) {
    sums.numbers += rank.value;
    sums.bits += int64_t{1} << rank.value;
  }
  return sums;
}

/// The same, added up by the members themselves.
inline RankSums reduced_sums(const World& world, const Group& group) {
  const RankSums own = sums_of({world.rank()});
  const at::Tensor sums = all_reduce(at::tensor({own.numbers, own.bits}, at::kLong), group).wait();
  return {sums[0].item<int64_t>(), sums[1].item<int64_t>()};
}

struct NamedRanks {
  std::string name;
  RankGroup ranks;  // Sorted.
};

/// The groups of one rank in the order of creation, from the list of all groups of all ranks.
inline std::vector<NamedRanks> groups_with(GlobalRank rank, const Plan& plan) {
  std::vector<NamedRanks> groups;
  plan.for_each_group([&](const GroupSpec& spec, const RankGroup& listed) {
    RankGroup ranks = listed;
    std::ranges::sort(ranks);
    if (std::ranges::binary_search(ranks, rank)) groups.push_back({spec.name, std::move(ranks)});
  });
  return groups;
}

}  // namespace tessera::testkit
