// Properties of OLMo's plans for random configurations.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tessera/plan/olmo/plan.h"

namespace tessera {
namespace {

struct Sample {
  int64_t world = 1;
  int64_t nodes = 1;
  olmo::WorldMeshConfig config;
};

int64_t any_size() {
  return *rc::gen::inRange<int64_t>(1, 4);
}

bool any_flag() {
  return *rc::gen::arbitrary<bool>();
}

// Degrees that fit: the world is their product.
Sample any_sample() {
  Sample sample{.world = any_size(), .nodes = any_size(), .config = {}};
  const auto maybe = [&](auto& part) {
    if (!any_flag()) return;
    part.emplace().degree = any_size();
    sample.world *= part->degree;
  };
  sample.config.dp = olmo::DataParallelConfig{.name = any_flag() ? olmo::DataParallelType::hsdp
                                                                 : olmo::DataParallelType::fsdp};
  sample.world *= sample.nodes;
  maybe(sample.config.pp);
  maybe(sample.config.cp);
  maybe(sample.config.tp);
  return sample;
}

RC_GTEST_PROP(OlmoPlanProperty, GroupsOfAKindPartitionTheWorld, ()) {
  const auto [world, nodes, config] = any_sample();
  const Plan plan = olmo_plan(world, config, nodes);
  RC_ASSERT(plan.layout("world").size() == world);
  for (const GroupSpec& spec : plan.specs()) {
    std::vector<int64_t> times(static_cast<size_t>(world), 0);
    for (const RankGroup& group : spec.groups.groups()) {
      for (const GlobalRank rank : group) ++times.at(static_cast<size_t>(rank.value));
    }
    for (const int64_t n : times) RC_ASSERT(n == 1);
  }
}

// Ranks that differ only in pp, cp or tp read the same data, so data-parallel groups have one rank
// in common with the groups of those axes; the model's groups have dp and cp.
RC_GTEST_PROP(OlmoPlanProperty, FlattenedGroupsAreTheProductOfTheirDimensions, ()) {
  const auto [world, nodes, config] = any_sample();
  const Plan plan = olmo_plan(world, config, nodes);
  const int64_t pp = config.pp ? config.pp->degree : 1;
  const int64_t cp = config.cp ? config.cp->degree : 1;
  const int64_t tp = config.tp ? config.tp->degree : 1;
  RC_ASSERT(plan.spec("dp").groups.size() == world / (pp * cp * tp));
  if (!config.cp) return;
  const char* const last = plan.find("dp_shard") != nullptr ? "dp_shard" : "dp";
  RC_ASSERT(plan.spec("dp_cp").groups.size() == plan.spec(last).groups.size() * cp);
}

}  // namespace
}  // namespace tessera
