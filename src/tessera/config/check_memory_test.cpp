// The bytes that a rank needs at least, per kind of data parallelism.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/config/layers.h"
#include "tessera/format/llama_presets.h"
#include "tessera/format/llama_size.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::message_of;

// 70,553,706,496 parameters: 80 blocks of 855,654,400, embedding and head of 1,050,673,152 each.
const LlamaConfig kLarge = llama_preset("llama3-70b");
constexpr int64_t kAll = 70'553'706'496;
constexpr int64_t kBlock = 855'654'400;
constexpr int64_t kVocabulary = 1'050'673'152;

TrainConfig config_of(const ParallelSection& parallel) {
  TrainConfig config = resolve({});
  config.parallel = parallel;
  return config;
}

void expect_needs(const TrainConfig& config, int64_t bytes) {
  EXPECT_NO_THROW(check_memory(config, kLarge, bytes));
  EXPECT_THROW(check_memory(config, kLarge, bytes - 1), ConfigError);
}

std::string refusal(const TrainConfig& config) {
  return message_of<ConfigError>([&] { check_memory(config, kLarge, 24'000'000'000); });
}

TEST(CheckMemory, TheUnitsAreThoseOfThePreset) {
  EXPECT_EQ(parameter_count(kLarge), kAll);
  EXPECT_EQ(80 * kBlock + 2 * kVocabulary + kLarge.hidden_size, kAll);
}

// Weights, gradients and two moments.
TEST(CheckMemory, ReplicasHoldTheWholeModel) {
  TrainConfig config = config_of({});
  expect_needs(config, kAll * 16);
  config.parallel = {.nproc = 8, .dp = 8};
  expect_needs(config, kAll * 16);
  EXPECT_EQ(refusal(config),
            "a model of 70,553,706,496 parameters in fp32 with --dp-type ddp needs "
            "1,128,859,303,936 bytes per rank for weights, gradients and optimizer state; this "
            "machine has 24,000,000,000. Choose from: a smaller model, --dtype bf16, --dp-type "
            "fsdp on more ranks (--dp), more --pp");
}

TEST(CheckMemory, OptimizersAndDtypesHaveTheirOwnState) {
  TrainConfig config = config_of({});
  config.optim.kind = "sgd";
  expect_needs(config, kAll * 8);
  config.optim.momentum = 0.9;
  expect_needs(config, kAll * 12);
  config.train.dtype = "bf16";  // And a float32 copy of the weights.
  expect_needs(config, kAll * (2 + 2 + 4 + 4));
  EXPECT_FALSE(contains(refusal(config), "--dtype bf16"));
  config.optim.kind = "adamw";
  expect_needs(config, kAll * (2 + 2 + 8 + 4));
  config.train.dtype = "fp64";
  expect_needs(config, kAll * 32);
}

TEST(CheckMemory, AStageIsAShareOfTheModel) {
  expect_needs(config_of({.nproc = 2, .pp = 2}), kAll / 2 * 16);
}

TEST(CheckMemory, ShardsAndTheUnitsThatAreGathered) {
  TrainConfig config = config_of({.nproc = 64, .dp = 64, .dp_type = "fsdp"});
  const int64_t shards = kAll / 64 * 16;
  expect_needs(config, shards + (kBlock + kVocabulary + kVocabulary) * 4);
  EXPECT_TRUE(contains(refusal(config),
                       "Choose from: a smaller model, --dtype bf16, more ranks "
                       "(--dp or --pp)"));
  config.optim.accumulate = 2;  // The slices' gradients are summed before they are reduced.
  expect_needs(config, shards + (kBlock + kVocabulary + kAll) * 4);
  config.parallel.reduce = "each";
  expect_needs(config, shards + (kBlock + kVocabulary + kVocabulary) * 4);
  config.optim.accumulate = 1;
  config.parallel.compute_dtype = "bf16";
  expect_needs(config, shards + (kBlock + kVocabulary + kVocabulary) * 2);
  config.parallel.compute_dtype = "same";
  config.parallel.reshard = "smaller";
  config.parallel.reshard_size = 8;
  expect_needs(config, shards + (kBlock + kVocabulary + kAll / 8 + kVocabulary) * 4);
  config.parallel.reshard = "never";
  expect_needs(config, shards + (kAll + kVocabulary) * 4);
  EXPECT_TRUE(contains(refusal(config), "--parallel.reshard all_but_last"));
}

TEST(CheckMemory, ReplicasOfShards) {
  const TrainConfig config =
      config_of({.nproc = 64, .dp = 64, .dp_type = "hsdp", .dp_replicate = 4});
  expect_needs(config, kAll / 16 * 16 + (kBlock + 2 * kVocabulary) * 4);
  EXPECT_TRUE(contains(refusal(config), "a smaller --dp-replicate"));
}

TEST(CheckMemory, Zero1HoldsAllWeightsAndShardsTheState) {
  const TrainConfig config = config_of({.nproc = 64, .dp = 64, .dp_type = "zero1"});
  expect_needs(config, kAll / 64 * 16 + (kAll + kVocabulary) * 4);
  EXPECT_TRUE(contains(refusal(config), "--dp-type fsdp on more ranks (--dp)"));
}

TEST(CheckMemory, APipelineGathersItsStage) {
  const TrainConfig config =
      config_of({.nproc = 64, .dp = 16, .pp = 4, .dp_type = "fsdp", .microbatches = 4});
  expect_needs(config, kAll / 4 / 16 * 16 + 2 * (kAll / 4) * 4);
}

TEST(CheckMemory, OneRankHasNoShards) {
  expect_needs(config_of({.dp_type = "fsdp"}), kAll * 16);
}

// 46,702,792,704 parameters, 45,097,156,608 of them in experts.
TEST(CheckMemory, RanksDivideTheExperts) {
  const LlamaConfig shape = llama_preset("mixtral-8x7b");
  const int64_t dense = 46'702'792'704 - 45'097'156'608;
  const TrainConfig config = config_of({.nproc = 8, .dp = 8, .ep = 4, .etp = 2});
  const int64_t bytes = (dense + 45'097'156'608 / 8) * 16;
  EXPECT_NO_THROW(check_memory(config, shape, bytes));
  EXPECT_THROW(check_memory(config, shape, bytes - 1), ConfigError);
}

TEST(CheckMemory, GpusAreNotChecked) {
  TrainConfig config = config_of({});
  config.train.device = "cuda";
  EXPECT_NO_THROW(check_memory(config, kLarge, 1));
}

}  // namespace
}  // namespace tessera
