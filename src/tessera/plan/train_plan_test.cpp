#include "tessera/plan/train_plan.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

RankGroup ranks(const Plan& plan, int64_t rank, const char* group) {
  return plan.group_of(GlobalRank{rank}, group).value_or(RankGroup{});
}

TEST(TrainPlan, OneRankIsInEveryGroupAlone) {
  const Plan plan = train_plan(1, {});
  for (const GroupSpec& spec : plan.specs()) EXPECT_EQ(spec.groups.size(), 1) << spec.name;
}

TEST(TrainPlan, ReplicasOfPipelines) {
  const Plan plan = train_plan(4, {.pp = 2, .dp_replicate = 2});
  EXPECT_EQ(ranks(plan, 1, "pp"), to_ranks({1, 3}));
  EXPECT_EQ(ranks(plan, 1, "batch"), to_ranks({0, 1}));
  EXPECT_EQ(ranks(plan, 1, "loss"), to_ranks({0, 1}));
  EXPECT_EQ(ranks(plan, 1, "grad"), to_ranks({0, 1}));
  EXPECT_EQ(ranks(plan, 1, "norm"), to_ranks({1, 3}));
  EXPECT_EQ(ranks(plan, 1, "dp_shard_cp"), to_ranks({1}));
}

TEST(TrainPlan, RanksOfASequenceHoldShardsIfAskedFor) {
  EXPECT_EQ(ranks(train_plan(4, {.cp = 4}), 1, "dp_shard_cp"), to_ranks({1}));
  EXPECT_EQ(ranks(train_plan(4, {.cp = 4, .shard_cp = true}), 1, "dp_shard_cp"),
            to_ranks({0, 1, 2, 3}));
  const Plan hybrid = train_plan(4, {.dp_replicate = 2, .cp = 2, .shard_cp = true});
  EXPECT_EQ(ranks(hybrid, 1, "dp_shard_cp"), to_ranks({0, 1}));
  EXPECT_EQ(ranks(hybrid, 1, "dp_replicate"), to_ranks({1, 3}));
  EXPECT_EQ((ParallelDims{.cp = 4}).shards(), 1);
  EXPECT_EQ((ParallelDims{.cp = 4, .shard_cp = true}).shards(), 4);
  EXPECT_EQ((ParallelDims{.dp_shard = 2, .cp = 4}).shards(), 8);
}

TEST(TrainPlan, EveryAxis) {
  const Plan plan = train_plan(
      32, {.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2, .ep = 4, .etp = 1});
  EXPECT_EQ(ranks(plan, 5, "tp"), to_ranks({4, 5}));
  EXPECT_EQ(ranks(plan, 5, "cp"), to_ranks({5, 7}));
  EXPECT_EQ(ranks(plan, 5, "dp_shard"), to_ranks({1, 5}));
  EXPECT_EQ(ranks(plan, 5, "dp_shard_cp"), to_ranks({1, 3, 5, 7}));
  EXPECT_EQ(ranks(plan, 5, "dp_replicate"), to_ranks({5, 13}));
  EXPECT_EQ(ranks(plan, 5, "batch"), to_ranks({1, 5, 9, 13}));
  EXPECT_EQ(ranks(plan, 5, "loss"), to_ranks({1, 3, 5, 7, 9, 11, 13, 15}));
  EXPECT_EQ(ranks(plan, 5, "ep"), to_ranks({4, 5, 6, 7}));
  EXPECT_EQ(ranks(plan, 5, "expert_shard"), to_ranks({1, 5}));
  EXPECT_EQ(ranks(plan, 5, "expert_grad"), to_ranks({1, 5, 9, 13}));
  EXPECT_EQ(ranks(plan, 5, "norm").size(), 16U);  // One replica of the model.
}

TEST(TrainPlan, ExpertsOverCopiesOfTheModel) {
  const Plan plan = train_plan(4, {.dp_replicate = 4, .ep = 2});
  EXPECT_EQ(ranks(plan, 1, "ep"), to_ranks({0, 1}));
  EXPECT_EQ(ranks(plan, 1, "expert_grad"), to_ranks({1, 3}));
  EXPECT_EQ(ranks(plan, 1, "norm"), to_ranks({0, 1, 2, 3}));  // Disjoint experts on each.
}

TEST(TrainPlan, TheEndsOfAPipelineShareTheEmbedding) {
  const Plan plan = train_plan(8, {.pp = 4, .tp = 2});
  EXPECT_EQ(ranks(plan, 0, "embedding"), to_ranks({0, 6}));
  EXPECT_EQ(ranks(plan, 7, "embedding"), to_ranks({1, 7}));
  EXPECT_EQ(ranks(plan, 2, "embedding"), RankGroup{});
}

TEST(TrainPlan, HierarchicalContextParallelismHasGroupsOfBothLevels) {
  const Plan plan = train_plan(8, {.cp = 4, .tp = 2}, {2, 2});
  EXPECT_EQ(ranks(plan, 5, "cp"), to_ranks({1, 3, 5, 7}));
  EXPECT_EQ(ranks(plan, 5, "cp_all_to_all"), to_ranks({5, 7}));
  EXPECT_EQ(ranks(plan, 5, "cp_ring"), to_ranks({1, 5}));
  const Plan plain = train_plan(8, {.cp = 4, .tp = 2});
  EXPECT_EQ(plain.specs().size() + 2, plan.specs().size());
  for (const std::vector<int64_t>& bad :
       {std::vector<int64_t>{2, 3}, {4}, {2, 2, 1}, {-2, -2}, {0, 4}}) {
    EXPECT_THROW(train_plan(8, {.cp = 4, .tp = 2}, bad), ConfigError);
  }
}

TEST(TrainPlan, Refuses) {
  EXPECT_EQ(message_of<ConfigError>([] { train_plan(8, {.pp = 2, .tp = 2}); }),
            "the product of pp 2, dp 1, cp 1 and tp 2 is 4, but there are 8 ranks; change a degree "
            "or the number of ranks");
  EXPECT_EQ(message_of<ConfigError>([] { train_plan(1, {.cp = 0}); }),
            "cp is 0, but must be at least 1");
  EXPECT_EQ(message_of<ConfigError>([] { train_plan(4, {.dp_shard = 4, .ep = 3}); }),
            "ep 3 × etp 1 = 3 does not divide dp·cp·tp = 4; choose divisors of 4");
}

ParallelDims dims_of(const DataParallelOptions& options) {
  ParallelDims dims;
  set_data_parallel(dims, options);
  return dims;
}

TEST(DataParallelOptions, SetBothDegrees) {
  EXPECT_EQ(dims_of({.dp = 4}), (ParallelDims{.dp_replicate = 4}));
  EXPECT_EQ(dims_of({.dp = 4, .type = "fsdp"}), (ParallelDims{.dp_shard = 4}));
  EXPECT_EQ(dims_of({.dp = 4, .type = "hsdp", .dp_replicate = 2}),
            (ParallelDims{.dp_replicate = 2, .dp_shard = 2}));
  const auto with_context = [](const DataParallelOptions& options) {
    ParallelDims dims{.cp = 2};
    set_data_parallel(dims, options);
    return dims.shards();
  };
  EXPECT_EQ(with_context({.type = "ddp"}), 1);
  EXPECT_EQ(with_context({.type = "fsdp"}), 2);
  EXPECT_EQ(with_context({.type = "zero1"}), 2);
  EXPECT_EQ(with_context({.dp = 2, .type = "hsdp", .dp_replicate = 2}), 2);
  EXPECT_EQ(with_context({.dp = 2, .type = "fsdp"}), 4);
}

TEST(DataParallelOptions, ThatDoNotFitAreRefused) {
  EXPECT_EQ(message_of<ConfigError>([] { dims_of({.dp = 0}); }), "dp is 0, but must be at least 1");
  EXPECT_EQ(message_of<ConfigError>([] { dims_of({.dp = 4, .type = "fspd"}); }),
            "dp-type is 'fspd'; choose ddp, fsdp, hsdp, zero1; did you mean 'fsdp'?");
  EXPECT_EQ(message_of<ConfigError>([] { dims_of({.dp = 4, .dp_replicate = 2}); }),
            "dp-replicate is 2, which needs dp-type hsdp or zero1, but it is ddp; leave one out");
  EXPECT_EQ(message_of<ConfigError>([] { dims_of({.dp = 4, .type = "hsdp", .dp_replicate = 3}); }),
            "dp-replicate is 3, which does not divide dp = 4; choose a divisor");
}

}  // namespace
}  // namespace tessera
