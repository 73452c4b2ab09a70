// Pipelines on real ranks: every schedule gives the loss and the gradients of one process.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/schedule/lower.h"
#include "tests/ranks/pipeline_trial.h"
#include "tests/testkit/device.h"
#include "tests/testkit/random_cases.h"
#include "tests/testkit/random_tables.h"
#include "tests/testkit/schedules.h"

namespace tessera {
namespace {

using testkit::inputs_of;
using testkit::loss_of_stage;
using testkit::make_parts;
using testkit::Part;
using testkit::Parts;
using testkit::PipelineTrial;
using testkit::run_ranks;
using testkit::stages_of;
using testkit::targets_of;

constexpr double kTolerance = PipelineTrial::kTolerance;

// ---- Every kind

std::optional<Schedule> schedule_of(const ScheduleConfig& config) {
  try {
    return make_schedule(config, {});
  } catch (const ConfigError&) {
    return std::nullopt;  // The kind does not support this number of microbatches.
  }
}

std::vector<Schedule> schedules_of(ScheduleKind kind, int64_t pp) {
  std::vector<Schedule> found;
  for (const int64_t stages : {1, 2, 3}) {
    for (const int64_t microbatches : {1, 2, 3, 4, 6, 8, 9}) {
      const auto schedule = schedule_of({kind, pp, microbatches, stages});
      if (schedule) found.push_back(*schedule);
    }
  }
  return found;
}

void check_kinds(int64_t world_size) {
  run_ranks(world_size, [](World& world) {
    for (const ScheduleKind kind : testkit::kAllKinds) {
      const auto schedules = schedules_of(kind, world.size());
      RANK_EXPECT(!schedules.empty()) << to_string(kind);
      for (const Schedule& schedule : schedules) {
        SCOPED_TRACE(concat(schedule.name(), " on ", schedule.num_stages(), " stages, ",
                            schedule.microbatches(), " microbatches"));
        PipelineTrial trial(world, schedule);
        trial.check_step(2 * schedule.microbatches());
        trial.check_step(2 * schedule.microbatches() + 1);  // Steps accumulate.
      }
    }
  });
}

TEST(PipelineRanks, EveryKindOnOneRank) {
  check_kinds(1);
}
TEST(PipelineRanks, EveryKindOnTwoRanks) {
  check_kinds(2);
}
TEST(PipelineRanks, EveryKindOnThreeRanks) {
  check_kinds(3);
}
TEST(PipelineRanks, EveryKindOnFourRanks) {
  check_kinds(4);
}

// ---- Any schedule

// Over NCCL messages have no tags, so pipelines refuse orders like some of these there.
constexpr Backend kAnyOrder = Backend::kGloo;

void check_random_tables(int64_t world_size) {
  run_ranks(world_size, [](World& world) {
    const auto pp = static_cast<size_t>(world.size());
    testkit::for_random_inputs<Schedule>(
        world, 40, [&] { return testkit::RandomPlay(pp).play(); },
        [&](const Schedule& table) {
          PipelineTrial trial(world, table, kAnyOrder);
          trial.check_step(2 * table.microbatches() + 1);
          const Schedule deferred = lower(table, {.receives = Receives::kDeferred});
          PipelineTrial(world, deferred, kAnyOrder).check_step(table.microbatches());
        });
  });
}

TEST(PipelineRanks, RandomTablesOnTwoRanks) {
  check_random_tables(2);
}
TEST(PipelineRanks, RandomTablesOnThreeRanks) {
  check_random_tables(3);
}
TEST(PipelineRanks, RandomTablesOnFourRanks) {
  check_random_tables(4);
}

TEST(PipelineRanks, TablesInTheStepwiseFormRun) {
  run_ranks(3, [](World& world) {
    const Schedule one = generate({.pp = 3, .microbatches = 5});
    PipelineTrial(world, lower_in_step(one, true), kAnyOrder).check_step(11);
    const Schedule gpipe = generate({.kind = ScheduleKind::kGPipe, .pp = 3, .microbatches = 2});
    PipelineTrial(world, lower_in_step(gpipe, false), kAnyOrder).check_step(4);
  });
}

// ---- Batches

TEST(PipelineRanks, BatchesMayChangeTheirSize) {
  run_ranks(2, [](World& world) {
    const Schedule schedule = generate({.pp = 2, .microbatches = 4});
    for (const int64_t rows : {8, 5, 8, 7, 4, 8}) PipelineTrial(world, schedule).check_step(rows);
    PipelineTrial trial(world, schedule);
    for (const int64_t rows : {8, 5, 8, 7, 4, 8, 5}) {
      for (const Part& part : trial.parts) {
        for (const at::Tensor& parameter : part.parameters()) parameter.mutable_grad().reset();
      }
      for (const Part& part : trial.reference) {
        for (const at::Tensor& parameter : part.parameters()) parameter.mutable_grad().reset();
      }
      trial.check_step(rows);
    }
  });
}

TEST(PipelineRanks, EvaluationGivesOutputsAndLossWithoutGradients) {
  run_ranks(2, [](World& world) {
    for (const ScheduleKind kind : testkit::kAllKinds) {
      const Schedule schedule = make_schedule({.kind = kind, .pp = 2, .microbatches = 4}, {});
      PipelineTrial trial(world, schedule);
      PipelineBatch batch = trial.batch(9);
      batch.outputs = true;
      for (int repeat = 0; repeat < 2; ++repeat) {
        const PipelineResult result = trial.pipeline.evaluate(batch);
        const c10::NoGradGuard no_grad;
        const at::Tensor output = testkit::forward_all(trial.reference, inputs_of(9));
        const double loss = testkit::loss_of(output, targets_of(9)).item<double>();
        RANK_EXPECT(std::abs(trial.pipeline.share_loss(result).item<double>() - loss) < kTolerance);
        RANK_EXPECT(result.outputs.size() == (trial.pipeline.has_last_stage() ? 1U : 0U));
        for (const at::Tensor& found : result.outputs) RANK_EXPECT(at::allclose(found, output));
        RANK_EXPECT(!trial.parts[size_t(trial.mine[0])].weight.grad().defined());
        RANK_EXPECT(result.peak_activations == 0);
      }
      trial.check_step(9);  // Training continues.
    }
  });
}

// A stage sends two tensors and a mask; the loss does not use one of them.
Tensors mixed_stage(const Part& part, const Tensors& inputs, int64_t stage) {
  if (stage == 0) return {part.forward(inputs[0]), inputs[0] * part.gain, inputs[0] > 0};
  const at::Tensor mixed = part.forward(inputs[0]) * inputs[2];
  return {mixed, inputs[1], inputs[2]};
}

TEST(PipelineRanks, SeveralTensorsCross) {
  run_ranks(3, [](World& world) {
    for (const auto kind : {ScheduleKind::k1F1B, ScheduleKind::kZBH1}) {
      const Schedule schedule = make_schedule({.kind = kind, .pp = 3, .microbatches = 3}, {});
      const Parts parts = make_parts(3);
      const Parts reference = make_parts(3);
      const int64_t mine = world.rank().value;
      Stage stage{.index = mine, .forward = [&](const Tensors& inputs, const StagePass& pass) {
                    return mixed_stage(parts[size_t(mine)], inputs, pass.stage);
                  }};
      Pipeline pipeline({stage}, schedule, world.group(),
                        {.loss = loss_of_stage, .device = testkit::device()});
      for (int repeat = 0; repeat < 2; ++repeat) {
        pipeline.step({.inputs = {inputs_of(7)}, .target = targets_of(7)});
        Tensors all{inputs_of(7)};
        for (int64_t i = 0; i < 3; ++i) all = mixed_stage(reference[size_t(i)], all, i);
        testkit::loss_of(all[0], targets_of(7)).backward();
      }
      RANK_EXPECT(testkit::same_gradients(parts, reference, {mine}, kTolerance));
    }
  });
}

TEST(PipelineRanks, KeywordsReachEveryStage) {
  run_ranks(2, [](World& world) {
    const Schedule schedule = generate({.pp = 2, .microbatches = 3});
    std::vector<double> seen;
    Stage stage{.index = world.rank().value, .forward = [&](const Tensors& x, const StagePass& p) {
                  const at::Tensor& rows = std::get<at::Tensor>(p.keywords->at("rows"));
                  seen.push_back(rows.sum().item<double>());
                  return Tensors{x[0] * std::get<double>(p.keywords->at("factor"))};
                }};
    Pipeline pipeline({stage}, schedule, world.group(), {.device = testkit::device()});
    const PipelineResult result = pipeline.evaluate(
        {.inputs = {at::ones({5, 1}, testkit::here())},
         .keywords = {{"rows", at::arange(5, testkit::here(at::kDouble))}, {"factor", 3.0}},
         .outputs = true});
    RANK_EXPECT(seen == std::vector<double>({0 + 1, 2 + 3, 4}));
    for (const at::Tensor& output : result.outputs) {
      RANK_EXPECT(output.equal(at::full({5, 1}, 9.F, testkit::here())));
    }
  });
}

// ---- Hooks

TEST(PipelineRanks, HooksAreCalledAtTheirActions) {
  run_ranks(2, [](World& world) {
    const Schedule schedule =
        generate({.kind = ScheduleKind::kInterleaved1F1B, .pp = 2, .microbatches = 4});
    const Parts parts = make_parts(4);
    std::vector<Stage> stages = stages_of(parts, schedule, GroupRank{world.rank().value});
    std::vector<std::string> events;
    for (Stage& stage : stages) {
      const auto note = [&events, index = stage.index](const char* what) {
        return [&events, index, what] { events.push_back(concat(index, what)); };
      };
      stage.hooks = {note("UNSHARD"), note("RESHARD"), note("REDUCE_GRAD"), note("LAST")};
    }
    Pipeline pipeline(stages, schedule, world.group(),
                      {.loss = loss_of_stage, .device = testkit::device()});
    pipeline.step({.inputs = {inputs_of(8)}, .target = targets_of(8)});
    std::vector<std::string> wanted;
    std::map<int32_t, int> backwards;
    for (const Action& action : pipeline.schedule().row(GroupRank{world.rank().value})) {
      for (const Task& task : action.tasks()) {
        if (!has_microbatch(task.type)) wanted.push_back(to_string(task));
        if (frees_activation(task.type) && ++backwards[task.stage] == 4) {
          wanted.push_back(concat(task.stage, "LAST"));
        }
      }
    }
    RANK_EXPECT(events == wanted) << join(events, " ") << " instead of " << join(wanted, " ");
    RANK_EXPECT(std::ranges::count(events, concat(world.rank().value, "REDUCE_GRAD")) == 1);
  });
}

}  // namespace
}  // namespace tessera
