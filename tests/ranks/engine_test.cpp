// A Llama on replicas of pipelines, compared with the same Llama in one process.
#include "tessera/train/engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/data/batches.h"
#include "tessera/format/weight_files.h"
#include "tessera/model/llama.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/clip.h"
#include "tessera/optim/sgd.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/gather.h"
#include "tessera/train/trainer.h"
#include "tests/ranks/engine_case.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::run_ranks;

// Of a usual rate; larger ones amplify the roundings of different orders of summation.
constexpr Precision kTenSteps{.tolerance = 1e-12};

// Every kind, tied and untied, on one mesh shape.
void check_kinds(World& world, int64_t dp, int64_t pp) {
  for (const ScheduleKind kind :
       {ScheduleKind::kGPipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved1F1B,
        ScheduleKind::kLoopedBFS, ScheduleKind::kInterleavedZeroBubble,
        ScheduleKind::kZBVZeroBubble, ScheduleKind::kDualPipeV, ScheduleKind::kZBH1,
        ScheduleKind::kVHalf}) {
    for (const bool tied : {false, true}) {
      check_case(world, {.dp = dp,
                         .pp = pp,
                         .kind = kind,
                         .microbatches = 2 * pp,
                         .tied = tied,
                         .batch = 4 * pp * dp});
    }
  }
}

TEST(Engine, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) {
    check_kinds(world, 1, 2);
    check_case(world, {.dp = 2, .microbatches = 1});
    check_case(world, {.dp = 2, .microbatches = 2, .tied = true, .batch = 7, .adamw = true});
    check_case(world, {.pp = 2, .microbatches = 3, .batch = 8, .adamw = true});
  });
}

TEST(Engine, ThreeRanksTrainAsOneProcess) {
  run_ranks(3, [](World& world) {
    check_case(world, {.pp = 3, .microbatches = 5, .tied = true, .batch = 8});
    check_case(world, {.dp = 3, .microbatches = 2, .batch = 8, .adamw = true});
  });
}

TEST(Engine, FourRanksTrainAsOneProcess) {
  run_ranks(4, [](World& world) {
    check_kinds(world, 2, 2);
    check_kinds(world, 1, 4);
    check_case(world, {.dp = 4, .microbatches = 1, .batch = 9, .adamw = true});
    check_case(world,
               {.dp = 2, .pp = 2, .microbatches = 3, .tied = true, .batch = 7, .adamw = true});
  });
}

TEST(Engine, TwoShardsTrainAsOneProcess) {
  using enum Reshard;
  run_ranks(2, [](World& world) {
    for (const Reshard policy : {kAlways, kNever, kAllButLast, kKeep}) {
      for (const bool tied : {false, true}) {
        check_case(world,
                   {.microbatches = 1,
                    .tied = tied,
                    .adamw = true,
                    .shard = 2,
                    .fsdp = {.reshard = policy},
                    .steps = 10,
                    .rate = 1e-3},
                   kTenSteps);
      }
      check_case(world, {.microbatches = 3, .batch = 7, .shard = 2, .fsdp = {.reshard = policy}});
      for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
        check_case(world, {.microbatches = 2,
                           .tied = true,
                           .shard = 2,
                           .fsdp = {.reshard = policy},
                           .recompute = recompute});
      }
    }
  });
}

// Ten steps of a usual rate, to 1e-12; sums of slices, a smaller group between the passes, shards
// on the CPU.
TEST(Engine, ShardsTrainToTheLastPlaces) {
  run_ranks(2, [](World& world) {
    using enum Reshard;
    for (const FsdpOptions& fsdp :
         {FsdpOptions{}, FsdpOptions{.reshard = kToSmaller, .smaller = 1},
          FsdpOptions{.reduce_each = true}, FsdpOptions{.offload = true},
          FsdpOptions{.reshard = kKeep, .reduce_each = true, .offload = true}}) {
      check_case(world,
                 {.microbatches = 2,
                  .tied = true,
                  .adamw = true,
                  .shard = 2,
                  .fsdp = fsdp,
                  .recompute = Recompute::kSelective,
                  .steps = 10,
                  .rate = 1e-3},
                 kTenSteps);
    }
    // A rounding of 6e-8 per product and step.
    check_case(world, {.microbatches = 2, .shard = 2, .steps = 10, .rate = 1e-3},
               {at::kFloat, 1e-6});
    // A rounding of 4e-3 per product, of parameters and gradients.
    check_case(world, {.microbatches = 2, .shard = 2, .steps = 10, .rate = 1e-3},
               {at::kBFloat16, 5e-2});
  });
}

TEST(Engine, ThreeShardsTrainAsOneProcess) {
  run_ranks(3, [](World& world) {
    check_case(world,
               {.microbatches = 2,
                .tied = true,
                .batch = 8,
                .adamw = true,
                .shard = 3,
                .steps = 10,
                .rate = 1e-3},
               kTenSteps);
  });
}

// HSDP, and pipelines of shards.
TEST(Engine, FourShardsTrainAsOneProcess) {
  run_ranks(4, [](World& world) {
    check_case(world,
               {.microbatches = 2,
                .tied = true,
                .adamw = true,
                .shard = 4,
                .fsdp = {.reshard = Reshard::kToSmaller, .smaller = 2},
                .steps = 10,
                .rate = 1e-3},
               kTenSteps);
    const std::string said = testkit::message_of<ConfigError>(
        [&] { check_case(world, {.pp = 2, .shard = 2, .fsdp = {.reduce_each = true}}); });
    RANK_EXPECT(said.find("reduction per slice is not available") != std::string::npos) << said;
    check_case(world, {.microbatches = 1, .batch = 9, .adamw = true, .shard = 4});
    for (const bool tied : {false, true}) {
      check_case(world,
                 {.dp = 2,
                  .microbatches = 1,
                  .tied = tied,
                  .adamw = true,
                  .shard = 2,
                  .steps = 10,
                  .rate = 1e-3},
                 kTenSteps);
      for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
        check_case(world, {.dp = 2,
                           .pp = 2,
                           .kind = ScheduleKind::kZBVZeroBubble,
                           .tied = tied,
                           .recompute = recompute});
      }
      for (const ScheduleKind kind :
           {ScheduleKind::k1F1B, ScheduleKind::kZBVZeroBubble, ScheduleKind::kInterleaved1F1B}) {
        for (const Reshard policy : {Reshard::kAllButLast, Reshard::kKeep}) {
          check_case(world,
                     {.pp = 2,
                      .kind = kind,
                      .tied = tied,
                      .adamw = true,
                      .shard = 2,
                      .fsdp = {.reshard = policy},
                      .steps = 10,
                      .rate = 1e-3},
                     kTenSteps);
        }
      }
    }
  });
}

// Also with deferred weight gradients.
TEST(Engine, RecomputeHasTheSameBits) {
  run_ranks(2, [](World& world) {
    for (Case c :
         {Case{.dp = 2}, Case{.microbatches = 1, .tied = true, .shard = 2}, Case{.shard = 2},
          Case{.pp = 2}, Case{.pp = 2, .kind = ScheduleKind::kZBVZeroBubble, .tied = true}}) {
      Engine plain = engine_of(world, c, at::kFloat);
      const Trained expected = train(c, plain);
      for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
        c.recompute = recompute;
        Engine engine = engine_of(world, c, at::kFloat);
        const Trained trained = train(c, engine);
        RANK_EXPECT(trained.losses == expected.losses) << text_of(c);
        RANK_EXPECT(trained.norms == expected.norms) << text_of(c);
        RANK_EXPECT(trained.evaluated == expected.evaluated) << text_of(c);
      }
    }
  });
}

// y = (x·weight)·scale with a scale that is not trained.
struct ScaledLinear {
  at::Tensor weight, scale;

  explicit ScaledLinear(int64_t outputs) {
    const at::TensorOptions here = testkit::here(at::kDouble);
    weight = at::arange(3 * outputs, here).view({3, outputs}).requires_grad_();
    scale = at::arange(1, outputs + 1, here);
  }
  Model model() const {
    const auto forward = [*this](const at::Tensor& x, const Pass&) {
      return x.to(weight.scalar_type()).matmul(weight) * scale;
    };
    const auto loss = [](const at::Tensor& y, const at::Tensor& target) {
      return (y - target).square().mean();
    };
    return model_of({{.name = "linear",
                      .parameters = {{"weight", weight}, {"scale", scale}},
                      .forward = forward}},
                    loss);
  }
};

// A module that has its values from the start, of which a part is frozen, in two precisions; and
// ranks that were given different modules.
TEST(Engine, ShardsOfAModuleWithValues) {
  run_ranks(2, [](World& world) {
    const auto sharded = [&](const ScaledLinear& net, const FsdpOptions& fsdp) {
      return compose(net.model(), realize(train_plan(2, {.dp_shard = 2}), world),
                     {.batch = 4, .device = testkit::device(), .fsdp = fsdp});
    };
    const at::TensorOptions here = testkit::here(at::kDouble);
    const at::Tensor x = at::arange(12, here).view({4, 3}), y = at::ones({4, 2}, here);
    const ScaledLinear whole(2);
    const Model model = whole.model();
    model.loss(model.build({0, 1})[0].forward(x, {}), y).backward();
    const FsdpOptions mixed{.compute_dtype = at::kFloat, .reduce_dtype = at::kDouble};
    for (const FsdpOptions& options : {FsdpOptions{}, mixed}) {
      Engine engine = sharded(ScaledLinear(2), options);
      const Span rows = engine.rows();
      engine.train_step(x.slice(0, rows.begin, rows.end), y.slice(0, rows.begin, rows.end));
      RANK_EXPECT(engine.parameters().size() == 2);
      const Parameter& own = engine.parameters()[0];
      RANK_EXPECT(own.tensor.numel() == 3 && own.tensor.scalar_type() == at::kDouble);
      RANK_EXPECT(at::allclose(own.tensor.grad(), elements_of(whole.weight.grad(), own.place.part),
                               /*rtol=*/1e-5));  // In float32.
      RANK_EXPECT(!engine.parameters()[1].tensor.grad().defined());
    }
    const std::string said = testkit::message_of<ConfigError>(
        [&] { sharded(ScaledLinear(world.rank().value + 2), {}); });
    RANK_EXPECT(said.find("the sharded models differ on the ranks") != std::string::npos) << said;
    RANK_EXPECT(said.find("of shape (3,3)") != std::string::npos) << said;
  });
}

TEST(Engine, StagesAreWrittenAsOneModel) {
  run_ranks(4, [](World& world) {
    int64_t round = 0;
    for (const bool tied : {false, true, false, true}) {
      const int64_t shard = 1 + ++round / 3;  // First replicas, then shards.
      const Case c{.dp = 2 / shard,
                   .pp = 2,
                   .kind = ScheduleKind::kZBVZeroBubble,
                   .tied = tied,
                   .shard = shard};
      const Engine engine = engine_of(world, c, at::kFloat);
      const testkit::TemporaryFolder folder;
      const Llama whole(config_of(c));
      const Group& norm = engine.plan().group("norm");
      if (norm.global_rank(GroupRank{0}) != GlobalRank{0}) continue;
      gather_parameters(
          engine.parameters(), whole.named_parameters(), norm,
          [&](const auto& source) { whole.save(folder.path(), Llama::kShardBytes, source); });
      if (world.rank().value != 0) continue;
      Llama read(config_of(c)), made(config_of(c));
      read.load(WeightFiles(folder.path()));
      made.initialize(kSeed);
      for (size_t i = 0; i < made.named_parameters().size(); ++i) {
        RANK_EXPECT(read.named_parameters()[i].tensor.equal(made.named_parameters()[i].tensor));
      }
    }
    RANK_EXPECT(true);
  });
}

// Tokens of 16 bits, all in the vocabulary.
std::string token_file(const testkit::TemporaryFolder& folder) {
  std::string bytes;
  for (int i = 0; i < 400; ++i) bytes += {static_cast<char>(i * 7 % 17), '\0'};
  return folder.file("tokens.bin", bytes);
}

// A learning rate that makes the second loss or its gradients non-finite.
void train_wildly(World& world, const Case& c) {
  Engine engine = engine_of(world, c, at::kFloat);
  const auto optimizer = optimizer_of(c, engine.parameters());
  const testkit::TemporaryFolder folder;
  const TokenBatches batches(
      Batches(TokenData({.paths = {token_file(folder)}}), {.batch = c.batch, .seq = 6}));
  std::vector<at::Tensor> good;
  const auto keep = [&](const StepMetrics& step) {
    if (!std::isfinite(step.loss) || !std::isfinite(step.grad_norm)) return;
    good.clear();
    for (const Parameter& parameter : engine.parameters())
      good.push_back(parameter.tensor.detach().clone());
  };
  const TrainerOptions options{.steps = 5, .learning_rate = {.peak = 1e30}};
  const std::string said = testkit::message_of<NumericError>(
      [&] { tessera::train(options, engine, batches, *optimizer, {.after_step = keep}); });
  RANK_EXPECT(said.find("learning rate") != std::string::npos) << said;
  RANK_EXPECT(good.size() == engine.parameters().size());
  for (size_t i = 0; i < good.size(); ++i) {
    RANK_EXPECT(engine.parameters()[i].tensor.equal(good[i])) << text_of(c) << " " << i;
  }
}

TEST(Engine, AfterAStepThatIsNotFiniteAllRanksHaveTheWeightsOfTheLastGoodOne) {
  run_ranks(4, [](World& world) {
    train_wildly(world, {.dp = 4, .microbatches = 1, .adamw = true});
    train_wildly(world, {.dp = 2, .pp = 2, .microbatches = 2});
    train_wildly(world, {.pp = 4, .microbatches = 4, .tied = true, .adamw = true});
  });
}

TEST(Engine, RefusesABatchThatLeavesReplicasWithout) {
  run_ranks(2, [](World& world) {
    const Case c{.dp = 2, .microbatches = 1, .batch = 1};
    const std::string message = testkit::message_of<ConfigError>([&] { check_case(world, c); });
    RANK_EXPECT(message.find("too small for 2 replicas") != std::string::npos) << message;
  });
}

}  // namespace
}  // namespace tessera
