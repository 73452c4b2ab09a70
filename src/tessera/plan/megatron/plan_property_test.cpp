// Properties of Megatron's plans for random configurations.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/plan/megatron/plan.h"

namespace tessera {
namespace {

struct Sample {
  int64_t world = 1;
  MegatronConfig config;
};

int64_t any_size() {
  return *rc::gen::inRange<int64_t>(1, 4);
}

bool any_flag() {
  return *rc::gen::arbitrary<bool>();
}

std::string any_pp_last_order() {
  std::vector<std::string> entries{"tp", "cp", "ep", "dp"};
  for (size_t i = entries.size(); i > 1; --i) {
    std::swap(entries[i - 1], entries[*rc::gen::inRange<size_t>(0, i)]);
  }
  return join(entries, "-") + "-pp";
}

// Sizes that fit: the world is a multiple of what decoder, experts and optimizer instances need.
Sample any_sample() {
  MegatronConfig c;
  c.tensor_model_parallel_size = any_size();
  c.pipeline_model_parallel_size = any_size();
  c.context_parallel_size = any_size();
  c.expert_model_parallel_size = any_size();
  if (any_flag()) c.expert_tensor_parallel_size = any_size();
  c.num_distributed_optimizer_instances = any_size();
  c.order = any_pp_last_order();
  c.create_gloo_process_groups = any_flag();
  c.create_all_gather_group = any_flag();
  const int64_t etp = c.expert_tensor_parallel_size.value_or(c.tensor_model_parallel_size);
  const int64_t world = c.pipeline_model_parallel_size * c.num_distributed_optimizer_instances *
                        std::lcm(c.tensor_model_parallel_size * c.context_parallel_size,
                                 etp * c.expert_model_parallel_size) *
                        *rc::gen::inRange<int64_t>(1, 3);
  const int64_t dp_cp = world / c.tensor_model_parallel_size / c.pipeline_model_parallel_size;
  c.hybrid_context_parallel = any_flag() && dp_cp % 2 == 0;
  if (any_flag()) c.hierarchical_context_parallel_sizes = {1, c.context_parallel_size};
  if (any_flag()) c.get_embedding_ranks = [](const auto& ranks) { return ranks; };
  return {world, c};
}

RC_GTEST_PROP(MegatronPlanProperty, GroupsOfAKindPartitionTheWorld, ()) {
  const auto [world, config] = any_sample();
  const Plan plan = megatron_plan(world, config);
  for (const GroupSpec& spec : plan.specs()) {
    std::vector<int64_t> times(static_cast<size_t>(world), 0);
    for (const RankGroup& group : spec.groups.groups()) {
      for (const GlobalRank rank : group) ++times.at(static_cast<size_t>(rank.value));
    }
    const int64_t least = spec.groups.covers() ? 1 : 0;
    for (const int64_t n : times) RC_ASSERT(least <= n && n <= 1);
    if (std::holds_alternative<Whole>(spec.groups.selection())) {
      RC_ASSERT(spec.groups.size() * spec.groups.count() == world);
    }
  }
}

RC_GTEST_PROP(MegatronPlanProperty, OwnGroupsAreThoseOfTheEnumeration, ()) {
  const auto [world, config] = any_sample();
  const Plan plan = megatron_plan(world, config);
  const GlobalRank rank{*rc::gen::inRange<int64_t>(0, world)};
  std::vector<std::pair<std::string, RankGroup>> expected;
  int64_t created = 0;
  plan.for_each_group([&](const GroupSpec& spec, const RankGroup& listed) {
    if (std::ranges::find(listed, rank) != listed.end()) {
      RankGroup sorted = listed;
      std::ranges::sort(sorted);
      expected.emplace_back(spec.name, sorted);
      RC_ASSERT(plan.creation_index(rank, spec.name) == created);
      RC_ASSERT(plan.group_of(rank, spec.name) == sorted);
      RC_ASSERT(spec.groups.listed(*spec.groups.index_of(rank)) == listed);
      RC_ASSERT(spec.groups.group(*spec.groups.index_of(rank)) == sorted);
    }
    ++created;
  });
  RC_ASSERT(created == plan.num_groups());
  std::vector<std::pair<std::string, RankGroup>> own;
  for (const auto& [spec, ranks] : plan.groups_of(rank)) own.emplace_back(spec->name, ranks);
  RC_ASSERT(own == expected);
}

RC_GTEST_PROP(MegatronPlanProperty, SizesMultiply, ()) {
  const auto [world, config] = any_sample();
  const Plan plan = megatron_plan(world, config);
  const auto size = [&](const char* name) { return plan.spec(name).groups.size(); };
  const int64_t tp = size("TENSOR_MODEL_PARALLEL_GROUP");
  const int64_t pp = size("PIPELINE_MODEL_PARALLEL_GROUP");
  RC_ASSERT(tp * pp * size("DATA_PARALLEL_GROUP_WITH_CP") == world);
  RC_ASSERT(tp * pp == size("MODEL_PARALLEL_GROUP"));
  RC_ASSERT(size("DATA_PARALLEL_GROUP") * size("CONTEXT_PARALLEL_GROUP") ==
            size("DATA_PARALLEL_GROUP_WITH_CP"));
  RC_ASSERT(size("EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP") *
                size("EXPERT_DATA_PARALLEL_GROUP") ==
            world);
  RC_ASSERT(size("INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP") *
                config.num_distributed_optimizer_instances ==
            world);
}

RC_GTEST_PROP(MegatronPlanProperty, ThePlanIsAFunctionOfTheConfiguration, ()) {
  const auto [world, config] = any_sample();
  RC_ASSERT(megatron_plan(world, config) == megatron_plan(world, config));
}

// So every rank creates its groups in one common order.
RC_GTEST_PROP(MegatronPlanProperty, OwnGroupsComeInTheOrderOfCreation, ()) {
  const auto [world, config] = any_sample();
  const Plan plan = megatron_plan(world, config);
  for (int64_t rank = 0; rank < world; ++rank) {
    int64_t last = -1;
    for (const auto& [spec, ranks] : plan.groups_of(GlobalRank{rank})) {
      const int64_t index = plan.creation_index(GlobalRank{rank}, spec->name).value_or(-1);
      RC_ASSERT(last < index);
      last = index;
    }
  }
}

}  // namespace
}  // namespace tessera
