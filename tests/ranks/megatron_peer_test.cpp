// The cases of Megatron-Core's own tests that exchange tensors, on eight real ranks. Comments have
// the names of the peer's cases.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/dialect/megatron/parallel_state.h"
#include "tests/ranks/fresh_world.h"
#include "tests/testkit/ranks.h"

namespace tessera::megatron {
namespace {

using testkit::in_fresh_world;
using testkit::reduced_sums;
using testkit::run_ranks;
using testkit::sums_of;

constexpr int64_t kRanks = 8;

RankGroup members_of(const Group& group) {
  return RankGroup(group.ranks().begin(), group.ranks().end());
}

Ranks integers_of(const Group& group) {
  Ranks ranks;
  for (const GlobalRank rank : group.ranks()) ranks.push_back(rank.value);
  return ranks;
}

bool gathers_its_members(const World& world, const Group& group) {
  const at::Tensor mine = at::full({1}, world.rank().value, at::kLong);
  return at::equal(all_gather(mine, group).wait(), at::tensor(integers_of(group), at::kLong));
}

// separate_all_gather_group
TEST(PeerRanks, TheGroupForGathersHasTheSameMembersAndAnotherHandle) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      initialize_model_parallel({.context_parallel_size = kRanks});
      RANK_EXPECT(!has_separate_all_gather_group());
      destroy_model_parallel();
      initialize_model_parallel({.context_parallel_size = kRanks, .create_all_gather_group = true});
      RANK_EXPECT(has_separate_all_gather_group());
      const Group plain = get_data_parallel_group(true);
      const Group gather = get_data_parallel_group(true, false, true);
      RANK_EXPECT(members_of(plain) == members_of(gather) && !(plain == gather));
      RANK_EXPECT(gathers_its_members(world, gather));
    });
  });
}

// expert_all_gather_group
TEST(PeerRanks, GroupsForGathersMadeByHand) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      initialize_model_parallel({.context_parallel_size = 4, .expert_model_parallel_size = 2});
      for (const Group& group : {get_data_parallel_group(true), get_expert_data_parallel_group()}) {
        const Group gather = create_group(integers_of(group));
        RANK_EXPECT(members_of(gather) == members_of(group) && !(gather == group));
        RANK_EXPECT(gathers_its_members(world, gather));
      }
    });
  });
}

// grad_sync and grad_sync_with_expert_parallel: shards are summed inside an instance, then between
// the instances, then gathered again.
at::Tensor sum_by_instances(const at::Tensor& gradient, const Group& inside) {
  at::Tensor shard = reduce_scatter(gradient, inside).wait();
  if (const auto between = get_inter_distributed_optimizer_instance_group(false)) {
    shard = all_reduce(shard, *between).wait();
  }
  return all_gather(shard, inside).wait();
}

TEST(PeerRanks, GradientsOfSeveralInstancesAddUp) {
  run_ranks(kRanks, [](World&) {
    for (const int64_t instances : {1, 2, 4}) {
      for (const int64_t ep : {1, 2}) {
        in_fresh_world([&](World& world) {
          initialize_model_parallel(
              {.expert_model_parallel_size = ep, .num_distributed_optimizer_instances = instances});
          const at::Tensor gradient = at::arange(kRanks) + 100 * world.rank().value;
          // An expert's gradient is the sum over its replicas: the ranks of the same ep index.
          const at::Tensor expected =
              all_reduce(gradient.clone(), get_expert_data_parallel_group()).wait();
          const Group inside = *get_expert_data_parallel_group(true, true);
          RANK_EXPECT(inside.size() == kRanks / ep / instances);
          RANK_EXPECT(at::equal(sum_by_instances(gradient, inside), expected));
          if (ep > 1) return;
          RANK_EXPECT(at::equal(sum_by_instances(gradient, get_data_parallel_group(true, true)),
                                at::arange(kRanks) * kRanks + 2800));
        });
      }
    }
  });
}

// optimizer tests: this rank's index among the instances
TEST(PeerRanks, InstancesAreCountedByTheGroupBetweenThem) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      initialize_model_parallel({.num_distributed_optimizer_instances = 2});
      const Group between = get_inter_distributed_optimizer_instance_group();
      RANK_EXPECT(between.size() == 2 && between.rank().value == world.rank().value / 4);
      const Group inside = get_intra_distributed_optimizer_instance_group();
      RANK_EXPECT(reduced_sums(world, inside) == sums_of(members_of(inside)));
      RANK_EXPECT(inside.size() == 4);
    });
  });
}

// hyper_comm_grid, integration: sizes, sums over tp, the experts' view of the same ranks
TEST(PeerRanks, SumsOverTensorParallelGroups) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      initialize_model_parallel({.tensor_model_parallel_size = 2,
                                 .context_parallel_size = 2,
                                 .expert_model_parallel_size = 4,
                                 .expert_tensor_parallel_size = 1});
      const int64_t even = world.rank().value / 2 * 2;
      const Group tensor = get_tensor_model_parallel_group();
      RANK_EXPECT(reduced_sums(world, tensor) == sums_of(to_ranks({even, even + 1})));
      RANK_EXPECT(get_context_parallel_world_size() == 2 && get_data_parallel_world_size() == 2);
      const int64_t block = world.rank().value / 4 * 4;
      RANK_EXPECT(reduced_sums(world, get_expert_model_parallel_group()) ==
                  sums_of(to_ranks({block, block + 1, block + 2, block + 3})));
    });
  });
}

}  // namespace
}  // namespace tessera::megatron
