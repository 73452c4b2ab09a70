// Tensor parallelism of a Llama, alone and with all other strategies, compared with one process.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tessera/train/gather.h"
#include "tests/ranks/engine_case.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::run_ranks;

// One key-value head per two query heads, so that 4 ranks share key-value heads; 17 tokens of
// vocabulary, which divide by nothing.
TEST(TensorParallel, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) {
    for (const bool sequence : {true, false}) {
      for (const bool tied : {false, true}) {
        check_case(world, {.microbatches = 1, .tied = tied, .tp = 2, .sequence = sequence});
      }
      check_case(world,
                 {.microbatches = 3, .batch = 7, .adamw = true, .tp = 2, .sequence = sequence});
      for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
        check_case(world, {.microbatches = 2,
                           .tied = true,
                           .recompute = recompute,
                           .tp = 2,
                           .sequence = sequence});
      }
    }
  });
}

TEST(TensorParallel, FourRanksTrainAsOneProcess) {
  run_ranks(4, [](World& world) {
    check_case(world, {.microbatches = 1, .tied = true, .tp = 4, .sequence = false});
    for (const bool sequence : {true, false}) {
      for (const bool tied : {false, true}) {
        check_case(world, {.dp = 2,
                           .microbatches = 1,
                           .tied = tied,
                           .adamw = true,
                           .tp = 2,
                           .sequence = sequence});
        check_case(world, {.microbatches = 2,
                           .tied = tied,
                           .adamw = true,
                           .shard = 2,
                           .tp = 2,
                           .sequence = sequence});
        for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kZBVZeroBubble}) {
          check_case(world, {.pp = 2, .kind = kind, .tied = tied, .tp = 2, .sequence = sequence});
        }
      }
    }
  });
}

// Twenty steps, so that a small error would grow.
void check_twenty_steps(World& world, Case c) {
  c.steps = 20;
  c.layers = 4;  // One per stage of ZBV.
  c.adamw = true;
  c.rate = 0.01;
  for (const bool tied : {false, true}) {
    c.tied = tied;
    check_case(world, c, {.tolerance = 1e-9});
  }
}

TEST(TensorParallel, TwoRanksTrainTwentySteps) {
  run_ranks(2, [](World& world) {
    check_twenty_steps(world, {.microbatches = 1, .tp = 2});
    check_twenty_steps(world, {.microbatches = 1, .tp = 2, .sequence = false});
    check_twenty_steps(world, {.microbatches = 1, .tp = 2, .tensor_async = true});
  });
}

TEST(TensorParallel, FourRanksTrainTwentySteps) {
  run_ranks(4, [](World& world) {
    // 6 positions cannot be split over 4 ranks.
    check_twenty_steps(world, {.microbatches = 1, .tp = 4, .sequence = false});
    check_twenty_steps(world, {.dp = 2, .microbatches = 1, .tp = 2});
    check_twenty_steps(world, {.microbatches = 1, .shard = 2, .tp = 2});
    check_twenty_steps(world, {.pp = 2, .tp = 2});
    check_twenty_steps(world, {.pp = 2, .kind = ScheduleKind::kZBVZeroBubble, .tp = 2});
    check_twenty_steps(
        world, {.pp = 2, .kind = ScheduleKind::kZBVZeroBubble, .tp = 2, .tensor_async = true});
  });
}

TEST(TensorParallel, InitialWeightsHaveTheSameBitsInEveryLayout) {
  run_ranks(4, [](World& world) {
    for (const Case& c :
         {Case{.tp = 4, .sequence = false}, Case{.dp = 2, .tp = 2},
          Case{.tied = true, .shard = 2, .tp = 2}, Case{.pp = 2, .tp = 2},
          Case{.pp = 2, .kind = ScheduleKind::kZBVZeroBubble, .tied = true, .tp = 2}}) {
      Llama whole(config_of(c), {.dtype = at::kFloat, .device = testkit::device()});
      whole.initialize(kSeed);
      const Engine engine = engine_of(world, c, at::kFloat);
      expect_same_parameters(c, engine.parameters(), whole, 0);
    }
  });
}

// The path of rank 0's folder, on every rank.
std::string shared_path(const testkit::TemporaryFolder& folder, const World& world) {
  const std::string path = folder.path();
  const Bytes bytes = broadcast_bytes({path.begin(), path.end()}, GlobalRank{0}, world.group());
  return {bytes.begin(), bytes.end()};
}

TEST(TensorParallel, ShardsOfShardsAreSavedAndLoadedByTheirGlobalPlace) {
  run_ranks(4, [](World& world) {
    const Case c{.microbatches = 1, .shard = 2, .tp = 2};
    Engine engine = engine_of(world, c, at::kFloat);
    train(c, engine);
    const testkit::TemporaryFolder folder;
    const std::string path = shared_path(folder, world);
    const Llama whole(config_of(c));
    gather_parameters(engine.parameters(), whole.named_parameters(), engine.plan().group("norm"),
                      [&](const auto& source) { whole.save(path, Llama::kShardBytes, source); });
    barrier(world.group());
    const WeightFiles files(path);
    Llama read(config_of(c), {.device = testkit::device()});
    read.load(files);
    expect_same_parameters(c, engine.parameters(), read, 0);
    for (const Case& other : {c, Case{.tp = 4, .sequence = false}, Case{.pp = 2, .tp = 2}}) {
      const Engine loaded = engine_of(world, other, at::kFloat, &files);
      expect_same_parameters(other, loaded.parameters(), read, 0);
    }
    barrier(world.group());  // Rank 0 removes the folder.
  });
}

TEST(TensorParallel, DegreesThatDoNotFitAreRefused) {
  run_ranks(3, [](World& world) {
    const std::string said =
        testkit::message_of<ConfigError>([&] { check_case(world, {.microbatches = 1, .tp = 3}); });
    RANK_EXPECT(said.find("tp 3 neither divides 2 heads") != std::string::npos) << said;
  });
}

}  // namespace
}  // namespace tessera
