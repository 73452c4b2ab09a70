#include "tessera/dialect/olmo/training.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera::olmo {
namespace {

using testkit::message_of;

TrainingSetup setup_of(int64_t world, const DataParallelConfig& dp) {
  return training_setup(world, {.dp = dp});
}

std::string refusal(int64_t world, const WorldMeshConfig& config) {
  return message_of<ConfigError>([&] { training_setup(world, config); });
}

TEST(OlmoTraining, FsdpShardsOverAllRanks) {
  const TrainingSetup setup = setup_of(4, {});
  EXPECT_EQ(setup.dp_type, "fsdp");
  EXPECT_EQ(setup.dims, (ParallelDims{.dp_shard = 4}));
  EXPECT_EQ(setup.options.fsdp.reshard, Reshard::kAllButLast);
  EXPECT_FALSE(setup.options.fsdp.compute_dtype);
  EXPECT_EQ(setup.options.fsdp.reduce_dtype, at::kFloat);
}

TEST(OlmoTraining, DtypesAreThoseOfComputeAndReduction) {
  const FsdpOptions options =
      setup_of(2, {.param_dtype = DType::bfloat16, .reduce_dtype = DType::float16}).options.fsdp;
  EXPECT_EQ(options.compute_dtype, at::kBFloat16);
  EXPECT_EQ(options.reduce_dtype, at::kHalf);
  EXPECT_EQ(setup_of(2, {.param_dtype = DType::float32}).options.fsdp.compute_dtype, at::kFloat);
}

TEST(OlmoTraining, HsdpHasReplicasOfShards) {
  const DataParallelType hsdp = DataParallelType::hsdp;
  EXPECT_EQ(setup_of(8, {.name = hsdp, .num_replicas = 2}).dims,
            (ParallelDims{.dp_replicate = 2, .dp_shard = 4}));
  EXPECT_EQ(setup_of(8, {.name = hsdp, .shard_degree = 2}).dims,
            (ParallelDims{.dp_replicate = 4, .dp_shard = 2}));
  const TrainingSetup by_node =
      training_setup(8, {.dp = {{.name = hsdp}}, .pp = {{.degree = 2}}}, /*num_nodes=*/2);
  EXPECT_EQ(by_node.dp_type, "hsdp");
  EXPECT_EQ(by_node.dims, (ParallelDims{.pp = 2, .dp_replicate = 2, .dp_shard = 2}));
}

TEST(OlmoTraining, DdpReplicatesAndReducesInItsDtype) {
  const TrainingSetup setup =
      setup_of(4, {.name = DataParallelType::ddp, .reduce_dtype = DType::bfloat16});
  EXPECT_EQ(setup.dp_type, "ddp");
  EXPECT_EQ(setup.dims, (ParallelDims{.dp_replicate = 4}));
  EXPECT_EQ(setup.options.ddp.reduce_dtype, at::kBFloat16);
}

// As in OLMo-core: only hsdp reads them.
TEST(OlmoTraining, DegreesHaveNoEffectWithoutHsdp) {
  EXPECT_EQ(setup_of(4, {.num_replicas = 2}).dims, (ParallelDims{.dp_shard = 4}));
  EXPECT_EQ(setup_of(4, {.name = DataParallelType::ddp, .shard_degree = 2}).dims,
            (ParallelDims{.dp_replicate = 4}));
}

TEST(OlmoTraining, LoadBalancersNameExchangeAndLayout) {
  using Cp = TransformerContextParallelConfig;
  const WorldMeshConfig config{.dp = DataParallelConfig{}, .cp = {{.degree = 2}}};
  EXPECT_EQ(training_setup(4, config).options.context, ContextParallelOptions{});
  const TrainingSetup zig_zag = training_setup(4, config, Cp::zig_zag(2));
  EXPECT_EQ(zig_zag.dims, (ParallelDims{.dp_shard = 2, .cp = 2}));
  EXPECT_EQ(zig_zag.options.context,
            (ContextParallelOptions{.type = "ring", .layout = "per-document"}));
  EXPECT_EQ(training_setup(4, config, Cp::llama3(2, 4)).options.context.head_stride, 4);
  EXPECT_EQ(training_setup(4, config, Cp::ulysses(2)).options.context.type, "ulysses");
  EXPECT_EQ(message_of<ConfigError>([&] { training_setup(4, config, Cp::ulysses(4)); }),
            "TransformerContextParallelConfig.degree is 4, but that of WorldMeshConfig.cp is 2; "
            "give both the same");
}

TEST(OlmoTraining, RefusesWhatItCannotDo) {
  EXPECT_EQ(refusal(2, {}), "WorldMeshConfig.dp is not set; training needs a DataParallelConfig");
  EXPECT_EQ(refusal(2, {.dp = {{.param_dtype = DType::float8_e4m3fn}}}),
            "DataParallelConfig.param_dtype is float8_e4m3fn, in which nothing here computes; "
            "choose bfloat16");
  EXPECT_EQ(refusal(2, {.dp = {{.reduce_dtype = DType::float8_e5m2}}}),
            "DataParallelConfig.reduce_dtype is float8_e5m2, in which nothing here computes; "
            "choose bfloat16");
  EXPECT_EQ(
      refusal(2, {.dp = {{.name = DataParallelType::ddp, .param_dtype = DType::bfloat16}}}),
      "DataParallelConfig.param_dtype with ddp is not supported: replicas compute in the dtype of "
      "their parameters; build the model in that dtype, or choose fsdp");
  const TrainingSetup tensor =
      training_setup(4, {.dp = DataParallelConfig{}, .tp = {{.degree = 2, .enable_async = true}}});
  EXPECT_EQ(tensor.dims.tp, 2);
  EXPECT_TRUE(tensor.options.sequence && tensor.options.tensor_async);
}

TEST(OlmoTraining, ExpertsAreSharedByRanksOfAReplica) {
  const TrainingSetup setup = training_setup(
      4, {.dp = {{.name = DataParallelType::hsdp, .shard_degree = 2}}, .ep = {{.degree = 2}}});
  EXPECT_EQ(setup.dims, (ParallelDims{.dp_replicate = 2, .dp_shard = 2, .ep = 2}));
  EXPECT_EQ(train_plan(4, setup.dims).group_of(GlobalRank{3}, "ep"), to_ranks({2, 3}));
}

}  // namespace
}  // namespace tessera::olmo
