#include "tessera/dialect/megatron/training.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera::megatron {
namespace {

using testkit::message_of;

std::string refusal(int64_t world, const MegatronConfig& config) {
  return message_of<ConfigError>([&] { training_setup(world, config); });
}

TEST(MegatronTraining, ShardsTheOptimizerOverAllReplicas) {
  const TrainingSetup setup = training_setup(4, {});
  EXPECT_EQ(setup.dp_type, "zero1");
  EXPECT_EQ(setup.dims, (ParallelDims{.dp_shard = 4}));
  EXPECT_EQ(setup.options.fsdp.reshard, Reshard::kKeep);
}

// The state is sharded over the ranks that Megatron's partial data-parallel group has.
TEST(MegatronTraining, AnOptimizerInstanceIsAReplicaOfTheShards) {
  const MegatronConfig config{.pipeline_model_parallel_size = 2,
                              .num_distributed_optimizer_instances = 2};
  const TrainingSetup setup = training_setup(16, config);
  EXPECT_EQ(setup.dims, (ParallelDims{.pp = 2, .dp_replicate = 2, .dp_shard = 4}));
  const Plan ours = train_plan(16, setup.dims);
  const Plan theirs = megatron_plan(16, config);
  for (int64_t rank = 0; rank < 16; ++rank) {
    const GlobalRank global{rank};
    EXPECT_EQ(ours.group_of(global, "dp_shard"),
              theirs.group_of(global, "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP"));
    EXPECT_EQ(ours.group_of(global, "pp"),
              theirs.group_of(global, "PIPELINE_MODEL_PARALLEL_GROUP"));
  }
}

TEST(MegatronTraining, ContextParallelismIsARingOrHierarchical) {
  const TrainingSetup ring = training_setup(4, {.context_parallel_size = 2});
  EXPECT_EQ(ring.dims, (ParallelDims{.dp_shard = 2, .cp = 2}));
  EXPECT_EQ(ring.options.context, ContextParallelOptions{});
  MegatronConfig config{.context_parallel_size = 4, .hierarchical_context_parallel_sizes = {2, 2}};
  const TrainingSetup setup = training_setup(8, config);
  EXPECT_EQ(setup.options.context.type, "hierarchical");
  const Plan ours = train_plan(8, setup.dims, setup.options.context.sizes);
  const Plan theirs = megatron_plan(8, config);
  for (int64_t rank = 0; rank < 8; ++rank) {
    const GlobalRank global{rank};
    EXPECT_EQ(ours.group_of(global, "cp"), theirs.group_of(global, "CONTEXT_PARALLEL_GROUP"));
    EXPECT_EQ(ours.group_of(global, "cp_all_to_all"),
              theirs.group_of(global, "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L0"));
    EXPECT_EQ(ours.group_of(global, "cp_ring"),
              theirs.group_of(global, "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L1"));
  }
  config.hierarchical_context_parallel_sizes = {2, 1, 2};
  EXPECT_EQ(refusal(8, config),
            "hierarchical_context_parallel_sizes 2·1·2 has 3 levels; training takes 2, all-to-all "
            "and ring");
}

TEST(MegatronTraining, ExpertsAreOnMegatronsRanks) {
  for (const std::optional<int64_t> etp : {std::optional<int64_t>{}, std::optional<int64_t>{1}}) {
    const MegatronConfig config{.tensor_model_parallel_size = 2,
                                .pipeline_model_parallel_size = 2,
                                .expert_model_parallel_size = 2,
                                .expert_tensor_parallel_size = etp};
    const TrainingSetup setup = training_setup(16, config);
    EXPECT_EQ(setup.dims.ep, 2);
    EXPECT_EQ(setup.dims.etp, etp.value_or(2));
    const Plan ours = train_plan(16, setup.dims);
    const Plan theirs = megatron_plan(16, config);
    for (int64_t rank = 0; rank < 16; ++rank) {
      const GlobalRank global{rank};
      EXPECT_EQ(ours.group_of(global, "ep"),
                theirs.group_of(global, "EXPERT_MODEL_PARALLEL_GROUP"));
      EXPECT_EQ(ours.group_of(global, "etp"),
                theirs.group_of(global, "EXPERT_TENSOR_PARALLEL_GROUP"));
      EXPECT_EQ(ours.group_of(global, "expert_grad"),
                theirs.group_of(global, "EXPERT_DATA_PARALLEL_GROUP"));
    }
  }
  EXPECT_EQ(training_setup(4, {.tensor_model_parallel_size = 2}).dims.etp, 1) << "no experts";
}

TEST(MegatronTraining, RefusesWhatItCannotDo) {
  const TrainingSetup tensor = training_setup(4, {.tensor_model_parallel_size = 2});
  EXPECT_EQ(tensor.dims, (ParallelDims{.dp_shard = 2, .tp = 2}));
  EXPECT_FALSE(tensor.options.sequence);
  EXPECT_EQ(refusal(4, {.pipeline_model_parallel_size = 2, .order = "tp-cp-ep-pp-dp"}),
            "the order tp-cp-ep-pp-dp places the ranks of a pipeline side by side; training needs "
            "pp last, as in tp-cp-ep-dp-pp");
  EXPECT_NO_THROW(training_setup(4, {.order = "tp-cp-ep-pp-dp"}));
}

}  // namespace
}  // namespace tessera::megatron
