#include "tessera/dialect/nemo/training.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/error.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/throws.h"

namespace tessera::nemo {
namespace {

using testkit::contains;
using testkit::message_of;

std::string refusal(const DistributedConfig& config, const ParallelismSizes& sizes = {}) {
  return message_of<ConfigError>([&] { training_setup(4, config, sizes); });
}

FsdpOptions fsdp_of(const FSDP2Config& config) {
  return training_setup(4, config).options.fsdp;
}

TEST(NemoTraining, FSDP2ComputesInBf16AndReducesInFp32) {
  const TrainingSetup setup = training_setup(4, FSDP2Config{});
  EXPECT_EQ(setup.dp_type, "fsdp");
  EXPECT_EQ(setup.dims, (ParallelDims{.dp_shard = 4}));
  const FsdpOptions& fsdp = setup.options.fsdp;
  EXPECT_EQ(fsdp.reshard, Reshard::kAllButLast);
  EXPECT_EQ(fsdp.compute_dtype, at::kBFloat16);
  EXPECT_EQ(fsdp.reduce_dtype, at::kFloat);
  EXPECT_FALSE(fsdp.reduce_each);
  EXPECT_FALSE(fsdp.offload);
  EXPECT_EQ(setup.options.recompute, Recompute::kNone);
}

TEST(NemoTraining, FSDP2HasReplicasAndPipelines) {
  const TrainingSetup setup =
      training_setup(8, FSDP2Config{}, {.dp_replicate_size = 2, .pp_size = 2});
  EXPECT_EQ(setup.dp_type, "hsdp");
  EXPECT_EQ(setup.dims, (ParallelDims{.pp = 2, .dp_replicate = 2, .dp_shard = 2}));
}

TEST(NemoTraining, FSDP2Dtypes) {
  const FsdpOptions none = fsdp_of({.mp_policy = {.param_dtype = {}, .reduce_dtype = {}}});
  EXPECT_FALSE(none.compute_dtype);
  EXPECT_FALSE(none.reduce_dtype);
  const FsdpOptions given =
      fsdp_of({.mp_policy = {.param_dtype = Dtype::kFloat16, .reduce_dtype = Dtype::kFloat64}});
  EXPECT_EQ(given.compute_dtype, at::kHalf);
  EXPECT_EQ(given.reduce_dtype, at::kDouble);
}

TEST(NemoTraining, FSDP2ReshardReductionAndOffload) {
  EXPECT_EQ(fsdp_of({.reshard_after_forward = true}).reshard, Reshard::kAlways);
  EXPECT_EQ(fsdp_of({.reshard_after_forward = false}).reshard, Reshard::kNever);
  EXPECT_TRUE(fsdp_of({.defer_fsdp_grad_sync = false}).reduce_each);
  EXPECT_TRUE(fsdp_of({.offload_policy = CPUOffloadPolicy{}}).offload);
}

TEST(NemoTraining, ActivationCheckpointingIsRecompute) {
  const auto of = [](const DistributedConfig& config) {
    return training_setup(4, config).options.recompute;
  };
  const auto full = ActivationCheckpointing::kFull;
  const auto selective = ActivationCheckpointing::kSelective;
  EXPECT_EQ(of(FSDP2Config{.activation_checkpointing = full}), Recompute::kFull);
  EXPECT_EQ(of(FSDP2Config{.activation_checkpointing = selective}), Recompute::kSelective);
  EXPECT_EQ(of(DDPConfig{.activation_checkpointing = full}), Recompute::kFull);
  EXPECT_EQ(of(DDPConfig{.activation_checkpointing = selective}), Recompute::kSelective);
  EXPECT_EQ(of(DDPConfig{}), Recompute::kNone);
  EXPECT_EQ(of(MegatronFSDPConfig{}), Recompute::kNone);
  EXPECT_EQ(of(MegatronFSDPConfig{.activation_checkpointing = true}), Recompute::kFull);
  EXPECT_EQ(refusal(DDPConfig{.activation_checkpointing = ActivationCheckpointing::kFull,
                              .activation_checkpointing_scope = {"vision"}}),
            "activation_checkpointing_scope is not supported: all units of a model are recomputed; "
            "leave it at all");
}

TEST(NemoTraining, FSDP2HasTensorAndSequenceParallelism) {
  for (const bool sequence : {false, true}) {
    const TrainingSetup setup =
        training_setup(4, FSDP2Config{.sequence_parallel = sequence}, {.tp_size = 2});
    EXPECT_EQ(setup.dims, (ParallelDims{.dp_shard = 2, .tp = 2}));
    EXPECT_EQ(setup.options.sequence, sequence);
  }
}

TEST(NemoTraining, FSDP2RefusesWhatItCannotDo) {
  EXPECT_TRUE(contains(refusal(FSDP2Config{.mp_policy = {.output_dtype = Dtype::kFloat32}}),
                       "mp_policy.output_dtype is not supported: "));
  EXPECT_TRUE(contains(refusal(FSDP2Config{.mp_policy = {.cast_forward_inputs = true}}),
                       "mp_policy.cast_forward_inputs is not supported: "));
  EXPECT_TRUE(contains(refusal(FSDP2Config{.autocast_dtype = Dtype::kBFloat16}),
                       "autocast_dtype is not supported: "));
  EXPECT_TRUE(contains(refusal(FSDP2Config{.enable_async_tensor_parallel = true}),
                       "enable_async_tensor_parallel is not supported: "));
  EXPECT_TRUE(
      contains(refusal(FSDP2Config{.enable_compile = true}), "enable_compile is not supported: "));
  FSDP2Config vision;
  vision.multimodal.vision.frame_sharding.enabled = true;
  EXPECT_TRUE(contains(refusal(vision), "frame_sharding is not supported: "));
}

TEST(NemoTraining, ExpertsAreSharedByRanks) {
  EXPECT_EQ(training_setup(4, FSDP2Config{}, {.ep_size = 2}).dims,
            (ParallelDims{.dp_shard = 4, .ep = 2}));
}

// Prefetch, packed sequences and the like change no value.
TEST(NemoTraining, FSDP2FieldsWithoutEffect) {
  FSDP2Config config{.sequence_parallel = true,
                     .tp_plan = "plan",
                     .patch_is_packed_sequence = true,
                     .offload_policy = CPUOffloadPolicy{.pin_memory = false},
                     .enable_fsdp2_prefetch = true,
                     .fsdp2_backward_prefetch_depth = 3,
                     .fsdp2_forward_prefetch_depth = 3,
                     .backend = "gloo"};
  config.multimodal.frozen_sharding = "replicate";
  const TrainingSetup setup = training_setup(4, config);
  EXPECT_EQ(setup.dims, (ParallelDims{.dp_shard = 4}));
  EXPECT_EQ(setup.options.fsdp.reshard, Reshard::kAllButLast);
}

TEST(NemoTraining, MegatronFSDPStrategies) {
  const auto of = [](int64_t strategy) {
    return training_setup(4, MegatronFSDPConfig{.zero_dp_strategy = strategy});
  };
  EXPECT_EQ(of(0).dp_type, "ddp");
  EXPECT_EQ(of(0).dims, (ParallelDims{.dp_replicate = 4}));
  for (const int64_t strategy : {1, 2}) {
    EXPECT_EQ(of(strategy).dp_type, "zero1");
    EXPECT_EQ(of(strategy).dims, (ParallelDims{.dp_shard = 4}));
    EXPECT_EQ(of(strategy).options.fsdp.reshard, Reshard::kKeep);
  }
  EXPECT_FALSE(of(1).options.fsdp.reduce_each);
  EXPECT_TRUE(of(2).options.fsdp.reduce_each);
  EXPECT_EQ(of(3).dp_type, "fsdp");
  EXPECT_EQ(of(3).options.fsdp.reshard, Reshard::kAllButLast);
  EXPECT_TRUE(of(3).options.fsdp.reduce_each);
  for (const int64_t strategy : {-1, 4}) {
    EXPECT_TRUE(contains(refusal(MegatronFSDPConfig{.zero_dp_strategy = strategy}),
                         "zero_dp_strategy is "));
  }
}

TEST(NemoTraining, MegatronFSDPFields) {
  const auto of = [](const MegatronFSDPConfig& config) {
    return training_setup(4, config).options;
  };
  EXPECT_FALSE(of({}).fsdp.reduce_dtype);
  EXPECT_EQ(of({.grad_reduce_in_fp32 = true}).fsdp.reduce_dtype, at::kFloat);
  EXPECT_EQ(of({.zero_dp_strategy = 0, .grad_reduce_in_fp32 = true}).ddp.reduce_dtype, at::kFloat);
  EXPECT_EQ(of({.disable_bucketing = true}).ddp.bucket_bytes, std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(contains(refusal(MegatronFSDPConfig{.calculate_per_token_loss = true}),
                       "calculate_per_token_loss is not supported: "));
  EXPECT_TRUE(contains(refusal(MegatronFSDPConfig{.keep_fp8_transpose_cache = true}),
                       "keep_fp8_transpose_cache is not supported: "));
}

TEST(NemoTraining, MegatronFSDPFieldsWithoutEffect) {
  const ComposeOptions options =
      training_setup(4, MegatronFSDPConfig{.megatron_fsdp_unit_modules = {{"Block"}},
                                           .init_fsdp_with_meta_device = true,
                                           .preserve_fp32_weights = true,
                                           .overlap_grad_reduce = false,
                                           .overlap_param_gather = false,
                                           .check_for_nan_in_grad = false,
                                           .report_nan_in_param_grad = true,
                                           .average_in_collective = true,
                                           .nccl_ub = true,
                                           .fsdp_double_buffer = true})
          .options;
  EXPECT_EQ(options.fsdp.reshard, Reshard::kAllButLast);
  EXPECT_FALSE(options.fsdp.reduce_dtype);
}

TEST(NemoTraining, DDPFields) {
  const TrainingSetup setup = training_setup(4, DDPConfig{.bucket_cap_mb = 25});
  EXPECT_EQ(setup.dp_type, "ddp");
  EXPECT_EQ(setup.dims, (ParallelDims{.dp_replicate = 4}));
  EXPECT_EQ(setup.options.ddp.bucket_bytes, 25 * 1024 * 1024);
  EXPECT_EQ(training_setup(4, DDPConfig{}).options.ddp.bucket_bytes, DdpOptions{}.bucket_bytes);
  EXPECT_EQ(training_setup(4, DDPConfig{.bucket_cap_mb = 1e-9}).options.ddp.bucket_bytes, 1);
  for (const double wrong : {0.0, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(contains(refusal(DDPConfig{.bucket_cap_mb = wrong}), "bucket_cap_mb is "));
  }
  EXPECT_TRUE(contains(refusal(DDPConfig{.broadcast_buffers = true}),
                       "broadcast_buffers is not supported: "));
  EXPECT_TRUE(contains(refusal(DDPConfig{.autocast_dtype = Dtype::kBFloat16}),
                       "autocast_dtype is not supported: "));
  EXPECT_NO_THROW(training_setup(4, DDPConfig{.find_unused_parameters = true,
                                              .static_graph = true,
                                              .gradient_as_bucket_view = true}));
}

}  // namespace
}  // namespace tessera::nemo
