#include "tessera/plan/traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

const TrainingStep kStep{.hidden = 100, .layers = 8, .sequence = 1000, .microbatches = 4};

DialectPlan plan_of(std::string_view dialect, int64_t world, const FlagValues& flags) {
  return plan_in(find_dialect(dialect), {.world = world, .flags = flags});
}

Traffic traffic_over(const DialectPlan& layout, std::string_view name,
                     const TrainingStep& step = kStep) {
  for (Traffic& traffic : traffic_of(layout, step)) {
    if (traffic.name == name) return traffic;
  }
  ADD_FAILURE() << "nothing over " << name;
  return {};
}

TEST(Traffic, TensorParallelRanksReduceActivationsFourTimesALayer) {
  const DialectPlan layout = plan_of("megatron", 8, {{"--tp", "4"}, {"--pp", "2"}});
  const double activations = 2.0 * 1000 * 100;
  EXPECT_DOUBLE_EQ(traffic_over(layout, "TENSOR_MODEL_PARALLEL_GROUP").bytes,
                   4 * 4 * 4 * activations * 2 * 3 / 4)
      << "4 micro-batches, 4 layers on a stage, 4 all-reduces, each 2·3/4";
}

TEST(Traffic, ContextParallelRanksPassKeysAndValues) {
  const DialectPlan layout = plan_of("megatron", 8, {{"--cp", "4"}, {"--tp", "2"}});
  const double activations = 2.0 * 250 * 100;
  EXPECT_DOUBLE_EQ(traffic_over(layout, "CONTEXT_PARALLEL_GROUP").bytes,
                   (8 * 4 - 4) * 4 * 8 * activations / 2)
      << "keys and values to 3 ranks, twice; their gradients in fp32 to 4 ranks";
}

TEST(Traffic, EachExchangeOfContextParallelismHasItsFormula) {
  const DialectPlan layout = train_layout({.cp = 4, .tp = 2}, "ddp", false);
  TrainingStep step = kStep;
  step.element_bytes = 4;
  step.heads = AttentionHeads{.query = 8, .kv = 4, .size = 5};
  const double each = 4 * 8 * 4 * 250;  // Micro-batches, layers, bytes, tokens.
  const double q = each * 4 * 5;
  const double k = each * 2 * 5;
  const auto sent = [&](const std::string& type, const std::vector<int64_t>& sizes = {}) {
    step.context = {.type = type, .sizes = sizes};
    std::map<std::string, double> bytes;
    for (const Traffic& traffic : traffic_of(layout, step)) bytes[traffic.name] = traffic.bytes;
    return bytes;
  };
  EXPECT_DOUBLE_EQ(sent("ring")["cp"], 2 * (3 * 4 - 2) * k);
  EXPECT_DOUBLE_EQ(sent("all-gather")["cp"], 6 * 3 * k);
  EXPECT_DOUBLE_EQ(sent("ulysses")["cp"], 4 * (q + 2 * k) * 3 / 4) << "2 heads on 4 ranks";
  auto both = sent("hierarchical", {2, 2});
  EXPECT_DOUBLE_EQ(both["cp_all_to_all"], 4 * (q + k) / 2);
  EXPECT_DOUBLE_EQ(both["cp_ring"], 2 * (3 * 2 - 2) * k);
  EXPECT_FALSE(both.contains("cp"));
  EXPECT_FALSE(sent("hierarchical", {1, 4}).contains("cp_all_to_all"));
  EXPECT_FALSE(sent("hierarchical", {4, 1}).contains("cp_ring"));
}

TEST(Traffic, StagesSendToTheirNeighbours) {
  const double activations = 2.0 * 1000 * 100;
  const char* const name = "PIPELINE_MODEL_PARALLEL_GROUP";
  EXPECT_DOUBLE_EQ(traffic_over(plan_of("megatron", 4, {{"--pp", "4"}}), name).bytes,
                   2 * 4 * activations);
  EXPECT_DOUBLE_EQ(traffic_over(plan_of("megatron", 4, {{"--pp", "2"}}), name).bytes,
                   4 * activations);
}

TEST(Traffic, GradientsTravelOnceAStep) {
  const DialectPlan layout = plan_of("megatron", 8, {{"--tp", "2"}});
  const double weights = 2.0 * 12 * 8 * 100 * 100 / 2;
  EXPECT_DOUBLE_EQ(traffic_over(layout, "DATA_PARALLEL_GROUP_WITH_CP").bytes, weights * 2 * 3 / 4);
}

TEST(Traffic, GivenParametersCount) {
  TrainingStep step = kStep;
  step.parameters = 1000;
  const auto all = traffic_of(plan_of("megatron", 2, {}), step);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_DOUBLE_EQ(all[0].bytes, 2000);
}

TEST(Traffic, ShardsGatherTwiceAndScatterOnce) {
  const DialectPlan layout = plan_of("olmo", 8, {{"--dp-type", "hsdp"}, {"--num-replicas", "2"}});
  const double weights = 2.0 * 12 * 8 * 100 * 100;
  EXPECT_DOUBLE_EQ(traffic_over(layout, "dp_shard").bytes, 3 * weights * 3 / 4);
  EXPECT_DOUBLE_EQ(traffic_over(layout, "dp_replicate").bytes, weights / 4 * 2 * 1 / 2);
}

TEST(Traffic, ExpertsGetTheirTokens) {
  const DialectPlan layout = plan_of("nemo", 8, {{"--ep-size", "4"}});
  EXPECT_DOUBLE_EQ(traffic_over(layout, "ep").bytes, 4.0 * 4 * 8 * 2 * (2.0 * 1000 * 100) * 3 / 4);
}

constexpr TrainingStep kExpertStep{.hidden = 100,
                                   .layers = 8,
                                   .sequence = 1000,
                                   .microbatches = 4,
                                   .experts_per_token = 3,
                                   .expert_layers = 4,
                                   .parameters = 1000,
                                   .expert_parameters = 800};

TEST(Traffic, RowsGoToOtherRanksAndComeBack) {
  EXPECT_DOUBLE_EQ(dispatch_bytes(5, 7, kExpertStep), 2 * (5 + 7) * 2.0 * 100);
}

// Each rank of tp has half of the tokens, which visit 3 experts in 4 layers.
TEST(Traffic, TokensAreDividedOverTensorParallelRanksBeforeTheirExperts) {
  const DialectPlan layout = train_layout({.dp_replicate = 4, .tp = 2, .ep = 4}, "ddp", true);
  const double rows = 4 * 4 * 3 * 500;
  EXPECT_DOUBLE_EQ(traffic_over(layout, "ep", kExpertStep).bytes, 4 * rows * 2 * 100 * 3 / 4);
  TrainingStep gathers = kExpertStep;
  gathers.gathers_tokens = true;
  EXPECT_DOUBLE_EQ(traffic_over(layout, "ep", gathers).bytes, 4.0 * 4 * 4 * 500 * 2 * 100 * 3);
}

TEST(Traffic, RanksThatShareExpertsGatherTheirRows) {
  const DialectPlan layout = train_layout({.dp_replicate = 4, .ep = 2, .etp = 2}, "ddp", true);
  EXPECT_DOUBLE_EQ(traffic_over(layout, "etp", kExpertStep).bytes,
                   4.0 * 4 * 4 * 3 * 1000 * 2 * 100);
}

TEST(Traffic, OnlyRanksWithTheSameExpertsExchangeTheirGradients) {
  const DialectPlan split = train_layout({.dp_replicate = 4, .ep = 2}, "ddp", true);
  EXPECT_DOUBLE_EQ(traffic_over(split, "grad", kExpertStep).bytes, 2.0 * 200 * 2 * 3 / 4);
  EXPECT_DOUBLE_EQ(traffic_over(split, "expert_grad", kExpertStep).bytes, 2.0 * 400 * 2 * 1 / 2);
  const DialectPlan whole = train_layout({.dp_replicate = 4}, "ddp", true);
  EXPECT_DOUBLE_EQ(traffic_over(whole, "expert_grad", kExpertStep).bytes, 2.0 * 800 * 2 * 3 / 4);
}

TEST(Traffic, ExpertsAreShardedOverTheirOwnRanks) {
  const ParallelDims dims{.dp_replicate = 2, .dp_shard = 4, .ep = 2};
  const DialectPlan layout = train_layout(dims, "hsdp", true);
  EXPECT_DOUBLE_EQ(traffic_over(layout, "dp_shard_cp", kExpertStep).bytes, 3 * 2.0 * 200 * 3 / 4);
  EXPECT_DOUBLE_EQ(traffic_over(layout, "expert_shard", kExpertStep).bytes, 3 * 2.0 * 400 / 2);
  EXPECT_DOUBLE_EQ(traffic_over(layout, "expert_replicate", kExpertStep).bytes,
                   2.0 * 400 / 2 * 2 * 1 / 2);
}

TEST(Traffic, OptimizerInstancesAreNotCountedTwice) {
  const DialectPlan layout =
      plan_of("megatron", 8, {{"--num-distributed-optimizer-instances", "2"}});
  EXPECT_EQ(traffic_of(layout, kStep).size(), 1U);
}

TEST(Traffic, GroupsOfOneRankSendNothing) {
  EXPECT_TRUE(traffic_of(plan_of("megatron", 1, {}), kStep).empty());
}

TEST(Traffic, RefusesStepsThatCannotBe) {
  const DialectPlan layout = plan_of("megatron", 16, {{"--pp", "16"}});
  EXPECT_EQ(testkit::message_of<ConfigError>([&] { traffic_of(layout, kStep); }),
            "--layers 8 are too few for 16 pipeline stages; give at least 16, or fewer stages");
  EXPECT_THROW(traffic_of(layout, {.hidden = 0, .layers = 16, .sequence = 1}), ConfigError);
  EXPECT_THROW(traffic_of(layout, {.hidden = 1, .layers = 16, .sequence = -1}), ConfigError);
  TrainingStep step = kExpertStep;
  step.expert_parameters = 1001;
  EXPECT_THROW(traffic_of(plan_of("megatron", 2, {}), step), ConfigError);
}

TEST(Links, AreNamedByTheBoundaryTheyCross) {
  const Machine machine{.gpus_per_node = 2, .nodes_per_rack = 2};
  EXPECT_EQ(link_between(GlobalRank{0}, GlobalRank{1}, machine), Link::kInNode);
  EXPECT_EQ(link_between(GlobalRank{0}, GlobalRank{3}, machine), Link::kAcrossNodes);
  EXPECT_EQ(link_between(GlobalRank{3}, GlobalRank{4}, machine), Link::kAcrossRacks);
  EXPECT_EQ(link_between(GlobalRank{3}, GlobalRank{4}, {.gpus_per_node = 2}), Link::kAcrossNodes);
}

TEST(Links, GroupsCountByTheirWidest) {
  const GroupFamily groups(Layout::row_major({{"dp", 4}, {"tp", 3}}), {"tp"});
  const PerLink count = groups_per_link(groups, {.gpus_per_node = 4, .nodes_per_rack = 2});
  EXPECT_EQ(count.in_node, 2) << "0-2 and 9-11";
  EXPECT_EQ(count.across_nodes, 1) << "3-5";
  EXPECT_EQ(count.across_racks, 1) << "6-8";
}

TEST(Links, ARingCrossesTwiceAndAllToAllOften) {
  const GroupFamily all(Layout::row_major({{"x", 4}}), {"x"});
  const Machine machine{.gpus_per_node = 2};
  Traffic traffic{.pattern = Pattern::kRing, .bytes = 3};
  EXPECT_EQ(bytes_per_link(all, traffic, machine).across_nodes, 6) << "1 to 2 and 3 to 0";
  EXPECT_EQ(bytes_per_link(all, traffic, machine).in_node, 6);
  traffic.pattern = Pattern::kAllToAll;
  EXPECT_EQ(bytes_per_link(all, traffic, machine).across_nodes, 8) << "each sends 2 away";
  EXPECT_EQ(bytes_per_link(all, traffic, machine).in_node, 4);
}

TEST(Links, StagesSendBothWaysOverEveryStep) {
  const GroupFamily all(Layout::row_major({{"x", 4}}), {"x"});
  const PerLink sent = bytes_per_link(all, {.pattern = Pattern::kLine, .bytes = 2}, {2});
  EXPECT_EQ(sent.in_node, 4) << "0 and 1, 2 and 3: 1 either way";
  EXPECT_EQ(sent.across_nodes, 2) << "1 and 2";
}

}  // namespace
}  // namespace tessera
