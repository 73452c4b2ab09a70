// Complete runs of a very small Llama in this process.
#include "tessera/train/trainer.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/run/report.h"
#include "tessera/train/job.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::TemporaryFolder;

class Trainer : public testing::Test {
 protected:
  const TemporaryFolder folder_;

  TrainConfig config() const {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "the cat sat on the mat; ";
    TrainConfig config;
    config.model.shape = {.vocab_size = 256,
                          .hidden_size = 32,
                          .intermediate_size = 48,
                          .num_hidden_layers = 2,
                          .num_attention_heads = 2,
                          .num_key_value_heads = 1,
                          .head_dim = 16};
    config.data = {.paths = {folder_.file("text.txt", text)}, .seq = 16, .batch = 4};
    config.optim.lr = 0.01;
    config.train = {.steps = 12, .threads = 1};
    return config;
  }

  TrainConfig rolling_back(const TemporaryFolder& run, int64_t save_every) const {
    TrainConfig saved = config();
    saved.run = {.dir = run.path(), .save_every = save_every};
    saved.optim.non_finite = "rollback";
    return saved;
  }
};

struct Outcome {
  std::vector<StepMetrics> steps;
  std::vector<at::Tensor> weights;
};

Outcome outcome_of(TrainJob& job) {
  Outcome outcome;
  train(job, {.after_step = [&](const StepMetrics& step) { outcome.steps.push_back(step); }});
  for (const Parameter& parameter : job.model.engine.parameters()) {
    outcome.weights.push_back(parameter.tensor.detach());
  }
  return outcome;
}

Outcome outcome_of(const TrainConfig& config) {
  TrainJob job = make_job(config);
  return outcome_of(job);
}

std::vector<double> losses_of(const Outcome& outcome) {
  std::vector<double> losses;
  for (const StepMetrics& step : outcome.steps) losses.push_back(step.loss);
  return losses;
}

TEST_F(Trainer, Learns) {
  const Outcome outcome = outcome_of(config());
  ASSERT_EQ(outcome.steps.size(), 12U);
  EXPECT_NEAR(outcome.steps.front().loss, std::log(256), 0.1);
  EXPECT_LT(outcome.steps.back().loss, 0.7 * outcome.steps.front().loss);
  const StepMetrics& last = outcome.steps.back();
  EXPECT_EQ(last.step, 11);
  EXPECT_GT(last.grad_norm, 0);
  EXPECT_GT(last.mem_bytes, 1 << 20);
  EXPECT_NEAR(last.tokens_per_s, 4 * 16 / last.ms * 1000, 1e-6 * last.tokens_per_s);
}

TEST_F(Trainer, TheSameRunTwiceGivesTheSameBits) {
  for (const char* dtype : {"fp32", "bf16"}) {
    TrainConfig twice = config();
    twice.train.dtype = dtype;
    twice.train.threads = 2;
    const Outcome first = outcome_of(twice);
    const Outcome second = outcome_of(twice);
    EXPECT_EQ(losses_of(first), losses_of(second)) << dtype;
    for (size_t i = 0; i < first.weights.size(); ++i) {
      EXPECT_TRUE(first.weights[i].equal(second.weights[i])) << dtype << " " << i;
    }
  }
}

TEST_F(Trainer, SeedsChangeTheWeightsAndTheOrder) {
  const std::vector<double> plain = losses_of(outcome_of(config()));
  TrainConfig other = config();
  other.train.seed = 1;
  EXPECT_NE(losses_of(outcome_of(other)), plain);
  other = config();
  other.data.seed = 1;
  EXPECT_NE(losses_of(outcome_of(other)), plain);
}

TEST_F(Trainer, SlicesChangeNothingThatMatters) {
  TrainConfig cut = config();
  cut.train.dtype = "fp64";
  const std::vector<double> whole = losses_of(outcome_of(cut));
  cut.optim.accumulate = 3;
  const std::vector<double> sliced = losses_of(outcome_of(cut));
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(sliced[i], whole[i], 1e-10) << i;
}

TEST_F(Trainer, ValidatesNowAndThenAndAtTheEnd) {
  TrainConfig validated = config();
  validated.train.validate_every = 5;
  validated.train.validate_batches = 1;
  validated.data.validation_share = 0.2;
  const Outcome outcome = outcome_of(validated);
  for (const StepMetrics& step : outcome.steps) {
    const bool due = step.step == 4 || step.step == 9 || step.step == 11;
    EXPECT_EQ(step.validation_loss.has_value(), due) << step.step;
  }
  EXPECT_LT(*outcome.steps[11].validation_loss, *outcome.steps[4].validation_loss);
}

TEST_F(Trainer, ValidationDoesNotDisturbTheTraining) {
  TrainConfig validated = config();
  validated.train.validate_every = 5;
  validated.data.validation_share = 0.2;
  TrainConfig rarely = validated;
  rarely.train.validate_every = 12;
  EXPECT_EQ(losses_of(outcome_of(validated)), losses_of(outcome_of(rarely)));
}

TEST_F(Trainer, NormsMayBeLeftWithoutDecay) {
  TrainConfig undecayed = config();
  undecayed.optim = {
      .kind = "sgd", .lr = 1, .schedule = "constant", .weight_decay = 0.5, .clip = 1e-30};
  undecayed.optim.decay_norms = false;
  undecayed.train.steps = 1;  // Clipped gradients change nothing, so only decay changes weights.
  TrainJob job = make_job(undecayed);
  train(job, {});
  for (const Parameter& parameter : job.model.engine.parameters()) {
    const bool norm = parameter.name.ends_with("norm.weight");
    EXPECT_EQ(norm, parameter.tensor.eq(1).all().item<bool>()) << parameter.name;
  }
}

TEST_F(Trainer, ResumesFromAStep) {
  TrainJob whole = make_job(config());
  std::vector<double> losses;
  train(whole, {.after_step = [&](const StepMetrics& step) { losses.push_back(step.loss); }});
  TrainJob cut = make_job(config());
  std::vector<double> parts;
  const TrainerHooks keep{.after_step = [&](const StepMetrics& s) { parts.push_back(s.loss); }};
  TrainerOptions options = cut.options;
  options.steps = 5;
  EXPECT_EQ(train(options, cut.model.engine, cut.batches, *cut.optimizer, keep), 5);
  options = cut.options;
  options.first_step = 5;
  EXPECT_EQ(train(options, cut.model.engine, cut.batches, *cut.optimizer, keep), 12);
  EXPECT_EQ(parts, losses);
}

// Beside validations and checkpoints, too.
TEST_F(Trainer, StepsThatAreQueuedTogetherGiveTheSameBits) {
  for (const char* kind : {"adamw", "sgd"}) {
    const TemporaryFolder run;
    TrainConfig queued = config();
    queued.optim.kind = kind;
    queued.train.validate_every = 5;
    queued.data.validation_share = 0.2;
    queued.run = {.dir = run.path(), .save_every = 4, .keep_last = 1};
    const Outcome expected = outcome_of(queued);
    for (const int64_t steps : {2, 3, 100}) {
      queued.train.sync_every = steps;
      const Outcome outcome = outcome_of(queued);
      EXPECT_EQ(losses_of(outcome), losses_of(expected)) << kind << " " << steps;
      for (size_t i = 0; i < outcome.steps.size(); ++i) {
        EXPECT_EQ(outcome.steps[i].step, static_cast<int64_t>(i));
        EXPECT_EQ(outcome.steps[i].validation_loss, expected.steps[i].validation_loss) << i;
      }
      for (size_t i = 0; i < outcome.weights.size(); ++i) {
        EXPECT_TRUE(outcome.weights[i].equal(expected.weights[i])) << kind << " " << steps;
      }
    }
  }
}

using StepNumbers = std::vector<int64_t>;

// For each step, how many were done when it was queued.
StepNumbers done_before_each_step(const TrainConfig& config, int64_t alone = -1) {
  TrainJob job = make_job(config);
  StepNumbers before;
  int64_t done = 0;
  train(job, {.before_step = [&](int64_t) { before.push_back(done); },
              .after_step = [&](const StepMetrics& step) { done = step.step + 1; },
              .is_alone = [&](int64_t step) { return step == alone; }});
  return before;
}

// What happens after a step cannot wait, if it needs the weights of just that step.
TEST_F(Trainer, QueuesStepsUpToOneThatIsAlone) {
  TrainConfig queued = config();
  queued.train.sync_every = 4;
  EXPECT_EQ(done_before_each_step(queued, /*alone=*/6),
            (StepNumbers{0, 0, 0, 0, 4, 4, 6, 7, 7, 7, 7, 11}));
}

TEST_F(Trainer, QueuesNoStepTogetherWithOneThatIsTraced) {
  const TemporaryFolder run;
  TrainConfig traced = config();
  traced.train.sync_every = 100;
  traced.run = {.dir = run.path(), .trace_steps = "4-5"};
  EXPECT_EQ(done_before_each_step(traced), (StepNumbers{0, 0, 0, 0, 4, 5, 6, 6, 6, 6, 6, 6}));
}

TEST_F(Trainer, QueuesNoStepsIfTheHostDecidesAfterEach) {
  TrainConfig averaged = config();
  averaged.optim.ema_decay = 0.5;
  TrainConfig half = config();
  half.train.dtype = "fp16";
  TrainConfig spiky = config();
  spiky.optim.spike = 8;
  const StepNumbers one_by_one{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  for (TrainConfig config : {averaged, half, spiky}) {
    config.train.sync_every = 100;
    EXPECT_EQ(done_before_each_step(config), one_by_one);
  }
}

TEST_F(Trainer, RefusesToQueueNoStep) {
  TrainJob job = make_job(config());
  TrainerOptions options = job.options;
  options.sync_every = 0;
  EXPECT_EQ(message_of<ConfigError>(
                [&] { train(options, job.model.engine, job.batches, *job.optimizer); }),
            "sync_every must be ≥ 1, but is 0");
}

TEST_F(Trainer, RefusesBatchesOfAnotherSize) {
  TrainJob job = make_job(config());
  TrainConfig other = config();
  other.data.batch = 5;
  const TrainJob larger = make_job(other);
  EXPECT_EQ(message_of<ConfigError>(
                [&] { train(job.options, job.model.engine, larger.batches, *job.optimizer); }),
            "the batches have 5 rows, but the engine was composed for 4; use the same number");
}

TEST_F(Trainer, StopsWhenAsked) {
  TrainJob job = make_job(config());
  int64_t seen = 0;
  const int64_t done = train(job, {.after_step = [&](const StepMetrics&) { ++seen; },
                                   .should_stop = [&] { return seen == 3; }});
  EXPECT_EQ(done, 3);
  EXPECT_EQ(seen, 3);
}

std::vector<at::Tensor> copies_of(const Parameters& parameters) {
  std::vector<at::Tensor> copies;
  for (const Parameter& parameter : parameters) copies.push_back(parameter.tensor.detach().clone());
  return copies;
}

TEST_F(Trainer, AStepThatIsNotFiniteEndsTheRunWithTheWeightsOfTheLastGoodOne) {
  for (const char* kind : {"adamw", "sgd"}) {
    for (const double clip : {0.0, 1.0}) {
      TrainConfig wild = config();
      wild.optim.kind = kind;
      wild.optim.lr = 1e30;
      wild.optim.clip = clip;
      wild.optim.schedule = "constant";
      TrainJob job = make_job(wild);
      const Parameters parameters = job.model.engine.parameters();
      StepMetrics last;
      std::vector<at::Tensor> good;
      const auto after_step = [&](const StepMetrics& step) {
        last = step;
        if (step.is_good()) good = copies_of(parameters);
      };
      const std::string message =
          message_of<NumericError>([&] { train(job, {.after_step = after_step}); });
      EXPECT_FALSE(last.is_good()) << "after_step is called first";
      EXPECT_NE(message.find("learning rate"), std::string::npos) << message;
      EXPECT_NE(message.find("rank 0"), std::string::npos) << message;
      EXPECT_NE(message.find(concat("step ", last.step)), std::string::npos) << message;
      ASSERT_FALSE(good.empty());
      for (size_t i = 0; i < good.size(); ++i) {
        EXPECT_TRUE(parameters[i].tensor.equal(good[i])) << kind << ", " << parameters[i].name;
      }
    }
  }
}

// float16 has 11 bits: a relative error of 5e-4 per operation, over a few hundred of them per step.
TEST_F(Trainer, Float16LearnsAsFloat32Does) {
  TrainConfig half = config();
  half.train.dtype = "fp16";
  half.train.steps = 24;
  half.optim.schedule = "constant";
  TrainConfig single = half;
  single.train.dtype = "fp32";
  TrainJob job = make_job(half);
  ASSERT_EQ(job.model.engine.parameters()[0].tensor.scalar_type(), at::kHalf);
  job.scaler.emplace(GradScalerOptions{.initial_scale = 1024});  // Does not overflow.
  const Outcome outcome = outcome_of(job);
  const std::vector<double> expected = losses_of(outcome_of(single));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(outcome.steps[i].loss, expected[i], 0.03) << i;
    EXPECT_EQ(outcome.steps[i].loss_scale, 1024);
    EXPECT_FALSE(outcome.steps[i].skipped);
  }
  EXPECT_LT(outcome.steps.back().loss, 0.5 * outcome.steps.front().loss);
}

TEST_F(Trainer, Float16FindsALossScale) {
  TrainConfig half = config();
  half.train.dtype = "fp16";
  half.train.steps = 24;
  TrainJob job = make_job(half);
  job.scaler.emplace(GradScalerOptions{.initial_scale = 1 << 24});
  const Outcome outcome = outcome_of(job);
  EXPECT_EQ(outcome.steps[0].loss_scale, 1 << 24);
  EXPECT_TRUE(outcome.steps[0].skipped);
  EXPECT_LE(outcome.steps.back().loss_scale, 65536);
  EXPECT_FALSE(outcome.steps.back().skipped);
  EXPECT_LT(outcome.steps.back().loss, 0.7 * outcome.steps.front().loss);
  EXPECT_EQ(report_of(half, outcome.steps).charts.back().title, "Loss scale");
}

// Every loss but the first is non-finite.
TEST_F(Trainer, SkipsStepsUntilThereAreTooMany) {
  TrainConfig wild = config();
  wild.optim = {.kind = "sgd", .lr = 1e30, .schedule = "constant", .clip = 0};
  wild.optim.non_finite = "skip";
  wild.train.steps = 50;
  TrainJob job = make_job(wild);
  const Parameters parameters = job.model.engine.parameters();
  std::vector<StepMetrics> steps;
  std::vector<at::Tensor> good;
  const auto after_step = [&](const StepMetrics& step) {
    steps.push_back(step);
    if (!step.skipped) good = copies_of(parameters);
  };
  const std::string message =
      message_of<NumericError>([&] { train(job, {.after_step = after_step}); });
  EXPECT_NE(message.find("the last 21 steps were skipped"), std::string::npos) << message;
  EXPECT_NE(message.find("those after step 0"), std::string::npos) << message;
  ASSERT_EQ(steps.size(), 22U);
  for (const StepMetrics& step : steps) EXPECT_EQ(step.skipped, step.step > 0);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_TRUE(parameters[i].tensor.equal(good[i])) << parameters[i].name;
  }
}

// A fault: the weights become `factor` times what they are.
void damage(const TrainJob& job, double factor) {
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : job.model.engine.parameters()) parameter.tensor.mul_(factor);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_F(Trainer, RollsBackToTheNewestCheckpoint) {
  for (const bool async : {false, true}) {
    const TemporaryFolder run;
    TrainConfig saved = rolling_back(run, /*save_every=*/3);
    saved.run.async_save = async;
    saved.optim.ema_decay = 0.5;
    TrainJob job = make_job(saved);
    std::vector<StepMetrics> steps;
    std::vector<at::Tensor> at_six;
    train(job, {.after_step = [&](const StepMetrics& step) {
            steps.push_back(step);
            if (step.step == 5) at_six = copies_of(job.model.engine.parameters());
            if (step.step == 7) {
              EXPECT_EQ(step.rolled_back_to, 6);
              const Parameters& now = job.model.engine.parameters();
              for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(now[i].tensor.equal(at_six[i]));
              for (const Parameter& average : job.average->averages()) {
                EXPECT_TRUE(at::isfinite(average.tensor).all().item<bool>());
              }
            }
            if (step.step == 6) damage(job, kNan);
          }});
    ASSERT_EQ(steps.size(), 12U);
    for (const StepMetrics& step : steps) EXPECT_EQ(step.is_good(), step.step != 7) << step.step;
    EXPECT_LT(steps[11].loss, steps[0].loss);
  }
}

TEST_F(Trainer, RollsBackIfOneOfSeveralQueuedStepsIsNotFinite) {
  const TemporaryFolder run;
  TrainConfig saved = rolling_back(run, /*save_every=*/3);
  saved.train.sync_every = 100;
  TrainJob job = make_job(saved);
  std::vector<int64_t> begun;
  std::vector<StepMetrics> steps;
  train(job, {.before_step =
                  [&](int64_t step) {
                    if (step == 6 && begun.back() == 5) damage(job, kNan);
                    begun.push_back(step);
                  },
              .after_step = [&](const StepMetrics& step) { steps.push_back(step); }});
  EXPECT_EQ(begun, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10, 11}));
  ASSERT_EQ(steps.size(), 12U);
  for (const StepMetrics& step : steps) {
    EXPECT_EQ(step.is_good(), step.step != 6) << step.step;
    EXPECT_EQ(step.rolled_back_to, step.is_good() ? std::nullopt : std::optional<int64_t>(6));
  }
}

TEST_F(Trainer, DoesNotRollBackToTheSameStepForEver) {
  const TemporaryFolder run;
  TrainConfig saved = rolling_back(run, /*save_every=*/100);
  saved.train.steps = 110;
  TrainJob job = make_job(saved);
  std::vector<StepMetrics> steps;
  const auto after_step = [&](const StepMetrics& step) {
    steps.push_back(step);
    if (step.step > 99) damage(job, kNan);
  };
  const std::string message =
      message_of<NumericError>([&] { train(job, {.after_step = after_step}); });
  EXPECT_NE(message.find("rolled back 4 times to the state after 100 steps"), std::string::npos)
      << message;
  EXPECT_EQ(steps.back().step, 104);
}

TEST_F(Trainer, WithoutACheckpointARollbackStops) {
  const TemporaryFolder run;
  TrainJob job = make_job(rolling_back(run, /*save_every=*/5));
  damage(job, kNan);
  EXPECT_NE(
      message_of<NumericError>([&] { train(job, {}); }).find("the loss of rank 0 is nan (step 0"),
      std::string::npos);
}

TEST_F(Trainer, ASpikeIsUndoneAndSaidAfterAResume) {
  const TemporaryFolder run;
  TrainConfig spiky = rolling_back(run, /*save_every=*/10);
  spiky.optim.spike = 8;
  spiky.train.steps = 30;
  TrainJob first = make_job(spiky);
  int64_t done = 0;
  train(first, {.after_step = [&](const StepMetrics&) { ++done; },
                .should_stop = [&] { return done == 22; }});
  spiky.run.resume = true;  // The median of the steps before is in the checkpoint.
  TrainJob second = make_job(spiky);
  std::vector<StepMetrics> steps;
  train(second, {.after_step = [&](const StepMetrics& step) {
          steps.push_back(step);
          if (step.step == 23) damage(second, 30);
        }});
  for (const StepMetrics& step : steps) {
    EXPECT_EQ(step.spike, step.step == 24) << step.step << ": " << step.loss;
    EXPECT_EQ(step.rolled_back_to.has_value(), step.spike) << step.step;
  }
}

TEST_F(Trainer, ASpikeStopsTheRunUnlessToldOtherwise) {
  TrainConfig spiky = config();
  spiky.optim.spike = 8;
  spiky.train.steps = 30;
  TrainJob job = make_job(spiky);
  const std::string message = message_of<NumericError>([&] {
    train(job, {.after_step = [&](const StepMetrics& step) {
            if (step.step == 24) damage(job, 30);
          }});
  });
  EXPECT_NE(message.find("times the median of the last 25 good steps (step 25: loss "),
            std::string::npos)
      << message;
}

TEST_F(Trainer, AveragesItsWeightsAndGoesOnAfterAResume) {
  const TemporaryFolder one, two;
  TrainConfig averaged = config();
  averaged.train.validate_every = 6;
  averaged.data.validation_share = 0.2;
  averaged.train.validate_ema = true;
  averaged.optim.ema_decay = 0.75;
  averaged.run = {.dir = one.path(), .save_every = 6};
  TrainJob whole = make_job(averaged);
  std::vector<at::Tensor> expected = copies_of(whole.model.engine.parameters());
  std::vector<StepMetrics> steps;
  train(whole, {.after_step = [&](const StepMetrics& step) {
          steps.push_back(step);
          const Parameters& now = whole.model.engine.parameters();
          for (size_t i = 0; i < now.size(); ++i) expected[i].lerp_(now[i].tensor.detach(), 0.25);
        }});
  const auto check = [&](const TrainJob& job) {
    const Parameters averages = job.average->averages();
    for (size_t i = 0; i < averages.size(); ++i) {
      EXPECT_TRUE(averages[i].tensor.equal(expected[i])) << averages[i].name;
    }
  };
  check(whole);
  TrainConfig plain = averaged;
  plain.train.validate_ema = false;
  plain.run.dir = two.path();
  TrainJob other = make_job(plain);
  std::vector<StepMetrics> others;
  int64_t done = 0;
  train(other, {.after_step = [&](const StepMetrics& step) { others.push_back(step), ++done; },
                .should_stop = [&] { return done == 6; }});
  EXPECT_NE(others[5].validation_loss, steps[5].validation_loss) << "that of the averages";
  EXPECT_EQ(others[5].loss, steps[5].loss) << "validation leaves the weights alone";
  plain.run.resume = true;
  TrainJob resumed = make_job(plain);
  train(resumed, {});
  check(resumed);
}

TEST_F(Trainer, DeterministicRunsUseDeterministicOperators) {
  TrainConfig strict = config();
  strict.train.deterministic = true;
  strict.train.threads = 2;
  const std::vector<double> first = losses_of(outcome_of(strict));
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_EQ(first, losses_of(outcome_of(strict)));
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST_F(Trainer, ItsReportShowsStepsAndConfiguration) {
  TrainConfig validated = config();
  validated.train.validate_every = 6;
  const Outcome outcome = outcome_of(validated);
  const ReportPage page = report_of(validated, outcome.steps);
  EXPECT_EQ(page.charts[0].series[0].points.size(), 12U);
  EXPECT_EQ(page.charts[0].series[1].points.size(), 2U);
  EXPECT_EQ(page.configuration[0].title, "model");
}

}  // namespace
}  // namespace tessera
