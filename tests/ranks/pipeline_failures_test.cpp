// Failures on one rank of a pipeline are reported on all, and invalid input is refused by all.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/schedule/lower.h"
#include "tests/ranks/pipeline_trial.h"
#include "tests/testkit/contains.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::inputs_of;
using testkit::loss_of_stage;
using testkit::make_parts;
using testkit::Parts;
using testkit::PipelineTrial;
using testkit::run_ranks;
using testkit::stages_of;
using testkit::targets_of;

std::string words_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return concat("ConfigError: ", error.what());
  } catch (const CommError& error) {
    return concat("CommError: ", error.what());
  } catch (const StateError& error) {
    return concat("StateError: ", error.what());
  } catch (const std::exception& error) {
    return concat("other: ", error.what());
  }
  return "nothing";
}

// The failing rank throws its own error, the others name that rank.
void check_told(const World& world, int64_t culprit, const std::string& own,
                const std::string& said, const std::string& place) {
  const bool right = world.rank().value == culprit
                         ? contains(said, own)
                         : contains(said, concat("CommError: rank ", culprit, " of group")) &&
                               contains(said, concat("failed at ", place));
  RANK_EXPECT(right) << said;
}

TEST(PipelineFailures, AStageThatThrowsEndsTheStepOnAllRanks) {
  run_ranks(4, [](World& world) {
    for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kZBVZeroBubble}) {
      const Schedule schedule = make_schedule({.kind = kind, .pp = 4, .microbatches = 8}, {});
      for (int64_t stage = 0; stage < schedule.num_stages(); ++stage) {
        PipelineTrial trial(world, schedule);
        bool throwing = true;
        std::vector<Stage> stages(trial.pipeline.stages().begin(), trial.pipeline.stages().end());
        for (Stage& own : stages) {
          own.forward = [&, inner = own.forward](const Tensors& inputs, const StagePass& pass) {
            if (throwing && pass.stage == stage && pass.microbatch == 2) {
              throw std::runtime_error("this stage has a bug");
            }
            return inner(inputs, pass);
          };
        }
        Pipeline pipeline(stages, schedule, world.group(),
                          {.loss = loss_of_stage, .device = testkit::device()});
        const int64_t culprit = schedule.rank_of(stage).value;
        const PipelineBatch batch{.inputs = {inputs_of(8)}, .target = targets_of(8)};
        const auto fails = [&] {
          const std::string said = words_of([&] { pipeline.step(batch); });
          check_told(world, culprit, "other: this stage has a bug", said, concat(stage, "F2"));
        };
        fails();  // While shapes are announced.
        throwing = false;
        pipeline.step(batch);
        throwing = true;
        fails();  // With known shapes.
        throwing = false;
        RANK_EXPECT(words_of([&] { pipeline.step(batch); }) == "nothing");
      }
    }
  });
}

TEST(PipelineFailures, UndefinedOutputsAreReported) {
  run_ranks(2, [](World& world) {
    const Schedule schedule = generate({.pp = 2, .microbatches = 2});
    Stage stage{.index = world.rank().value, .forward = [](const Tensors& x, const StagePass& p) {
                  return p.stage == 0 ? Tensors{at::Tensor()} : x;
                }};
    Pipeline pipeline({stage}, schedule, world.group(),
                      {.loss = loss_of_stage, .device = testkit::device()});
    const std::string said =
        words_of([&] { pipeline.step({.inputs = {inputs_of(4)}, .target = targets_of(4)}); });
    check_told(world, 0, "ConfigError: output 0 of stage 0 for microbatch 0 is undefined", said,
               "0F0");
  });
}

TEST(PipelineFailures, UnexpectedShapesAreReported) {
  run_ranks(2, [](World& world) {
    const Schedule schedule = generate({.pp = 2, .microbatches = 2});
    const Parts parts = make_parts(2);
    int64_t width = testkit::kWidth;
    std::vector<Stage> stages = stages_of(parts, schedule, GroupRank{world.rank().value});
    stages[0].forward = [&, inner = stages[0].forward](const Tensors& x, const StagePass& pass) {
      Tensors y = inner(x, pass);
      if (pass.stage == 0) y[0] = y[0].narrow(1, 0, width);
      return y;
    };
    Pipeline pipeline(stages, schedule, world.group(),
                      {.loss = loss_of_stage, .device = testkit::device()});
    const PipelineBatch batch{.inputs = {inputs_of(4)}, .target = targets_of(4)};
    pipeline.step(batch);
    width = 2;
    const std::string said = words_of([&] { pipeline.step(batch); });
    check_told(world, 0, "ConfigError: stage 0 returned Double [2, 2]", said, "0SEND_F0");
  });
}

/// A call that all ranks must refuse, with the same error or with different ones.
struct Refusal {
  std::string name;
  std::function<void(World&)> act;
  std::string own;          // The error on `culprit`, or on all ranks.
  int64_t culprit = -1;     // The rank with the cause; -1 if there is none.
  std::string others = "";  // The error on the other ranks.
};

Pipeline two_stages(World& world, const Parts& parts) {
  const Schedule schedule = generate({.pp = 2, .microbatches = 4});
  return {stages_of(parts, schedule, GroupRank{world.rank().value}),
          schedule,
          world.group(),
          {.loss = loss_of_stage, .device = testkit::device()}};
}

std::vector<Refusal> refusals() {
  static const Parts parts = make_parts(4);
  const auto with_stages = [](World& world, const std::vector<int64_t>& indices) {
    std::vector<Stage> stages;
    for (const int64_t index : indices) stages.push_back(testkit::stage_of(index, parts[0]));
    Pipeline(stages, generate({.pp = 2, .microbatches = 4}), world.group());
  };
  const auto step_with = [](World& world, const PipelineBatch& batch) {
    two_stages(world, parts).step(batch);
  };
  const PipelineBatch good{.inputs = {inputs_of(8)}, .target = targets_of(8)};
  return {
      {"a missing stage", [=](World& w) { with_stages(w, {w.rank().value == 0 ? 0 : 7}); },
       "ConfigError: rank 1 has stage 7, but the schedule has stages 0 to 1"},
      {"no stage",
       [=](World& w) {
         with_stages(w, w.rank().value == 0 ? std::vector<int64_t>{0} : std::vector<int64_t>{});
       },
       "ConfigError: stage 1 is missing; the schedule has it on rank 1"},
      {"a stage twice",
       [=](World& w) {
         with_stages(w, w.rank().value == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1});
       },
       "ConfigError: stage 1 exists 2 times (on rank 0 and 1)"},
      {"stages on the wrong rank", [=](World& w) { with_stages(w, {1 - w.rank().value}); },
       "ConfigError: stage 0 is on rank 1; the schedule has it on rank 0"},
      {"a table for more ranks",
       [=](World& w) { Pipeline({}, generate({.pp = 4, .microbatches = 4}), w.group()); },
       "ConfigError: the schedule is for 4 ranks, but group world has 2"},
      {"different tables",
       [=](World& w) {
         Pipeline({}, generate({.pp = 2, .microbatches = 4 + w.rank().value}), w.group());
       },
       "ConfigError: ranks 0 and 1 of group world have different schedules"},
      {"a table without messages",
       [=](World& w) {
         const Schedule table = with_reduce_grad(generate({.pp = 2, .microbatches = 2}));
         Pipeline(stages_of(parts, table, GroupRank{w.rank().value}), table, w.group());
       },
       "ConfigError: schedule 1F1B has no sends and receives"},
      {"a stage without a function",
       [=](World& w) {
         std::vector<Stage> stages{testkit::stage_of(w.rank().value, parts[0])};
         if (w.rank().value == 1) stages[0].forward = {};
         Pipeline(stages, generate({.pp = 2, .microbatches = 4}), w.group());
       },
       "ConfigError: stage 1 has no forward function", 1,
       "ConfigError: that every stage can be run"},
      {"too few rows",
       [=](World& w) { step_with(w, {.inputs = {inputs_of(3)}, .target = targets_of(3)}); },
       "ConfigError: a batch of 3 rows cannot be split into 4 microbatches"},
      {"other targets",
       [=](World& w) { step_with(w, {.inputs = {inputs_of(8)}, .target = targets_of(7)}); },
       "ConfigError: the targets of rank 1 have 7 rows, but the inputs have 8"},
      {"no inputs", [=](World& w) { step_with(w, {.target = targets_of(8)}); },
       "ConfigError: this rank has the first stage but no inputs", 0,
       "ConfigError: rank 0 of group world refused the step"},
      {"inputs of different rows",
       [=](World& w) {
         step_with(w, {.inputs = {inputs_of(8), inputs_of(9)}, .target = targets_of(8)});
       },
       "ConfigError: input 1 has 9 rows, but input 0 has 8", 0,
       "ConfigError: rank 0 of group world refused the step"},
      {"no target", [=](World& w) { step_with(w, {.inputs = {inputs_of(8)}}); },
       "ConfigError: this rank has the last stage but no target", 1,
       "ConfigError: rank 1 of group world refused the step"},
      {"no loss",
       [=](World& w) {
         const Schedule table = generate({.pp = 2, .microbatches = 4});
         Pipeline(stages_of(parts, table, GroupRank{w.rank().value}), table, w.group()).step(good);
       },
       "ConfigError: this rank has the last stage but no loss function", 1,
       "ConfigError: rank 1 of group world refused the step"},
      {"gradients off on one rank",
       [=](World& w) {
         c10::AutoGradMode mode(w.rank().value == 0);
         step_with(w, good);
       },
       "ConfigError: a step needs gradients, but they are disabled here", 1,
       "ConfigError: rank 1 of group world refused the step"},
      {"a step that one rank skips",
       [=](World& w) {
         PipelineBatch batch = good;
         batch.step = 5 + w.rank().value;
         step_with(w, batch);
       },
       "CommError: the ranks of group world are not in the same step: rank 0 begins a step, its "
       "call 1, step 5 of the run, rank 1 a step, its call 1, step 6 of the run"},
      {"one rank evaluates",
       [=](World& w) {
         Pipeline pipeline = two_stages(w, parts);
         w.rank().value == 0 ? pipeline.step(good) : pipeline.evaluate(good);
       },
       "CommError: the ranks of group world are not in the same step: rank 0 begins a step, its "
       "call 1, rank 1 an evaluation"},
  };
}

TEST(PipelineFailures, BadInputIsRefusedByAllRanks) {
  run_ranks(2, [](World& world) {
    for (const Refusal& refusal : refusals()) {
      const std::string said = words_of([&] { refusal.act(world); });
      const bool about_me = refusal.culprit < 0 || refusal.culprit == world.rank().value;
      RANK_EXPECT(contains(said, about_me ? refusal.own : refusal.others))
          << refusal.name << ": " << said;
    }
    PipelineTrial(world, generate({.pp = 2, .microbatches = 4}))
        .check_step(8);  // No messages are left over.
  });
}

TEST(PipelineFailures, AMovedFromPipelineThrows) {
  run_ranks(2, [](World& world) {
    const Parts parts = make_parts(2);
    Pipeline first = two_stages(world, parts);
    Pipeline pipeline = std::move(first);
    const std::vector<std::function<void()>> calls{
        [&] { first.step({}); },          [&] { first.evaluate({}); },
        [&] { first.share_loss({}); },    [&] { (void)first.schedule(); },
        [&] { (void)first.group(); },     [&] { (void)first.stages(); },
        [&] { first.has_first_stage(); }, [&] { first.has_last_stage(); }};
    for (const auto& call : calls) {
      RANK_EXPECT(contains(words_of(call), "StateError: this Pipeline was moved from"));
    }
    RANK_EXPECT(pipeline.group() == world.group());
  });
}

}  // namespace
}  // namespace tessera
