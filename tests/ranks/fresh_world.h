#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/collectives.h"
#include "tessera/comm/world.h"
#include "tessera/plan/plan.h"

/// Helpers for tests of the dialects' groups on real ranks.
namespace tessera::testkit {

/// A new world without communicators, which is current while the body runs.
inline void in_fresh_world(const std::function<void(World&)>& body) {
  World& world = World::make_current(
      World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)}));
  body(world);
  world.close();
  World::clear_current();
}

/// Sums that identify the members of a group: of the rank numbers, and of one bit per rank.
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

/// The same, by an all-reduce of the group.
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
