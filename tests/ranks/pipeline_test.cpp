// Pipelines on real ranks: every table gives the loss and the gradients of one process, takes the
// memory and the time that its simulation says, and tells all ranks what goes wrong on one.
#include "tessera/parallel/pipeline/pipeline.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tessera/schedule/lower.h"
#include "tessera/schedule/simulate.h"
#include "tests/ranks/pipeline_parts.h"
#include "tests/testkit/live_memory.h"
#include "tests/testkit/random_cases.h"
#include "tests/testkit/random_tables.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/schedules.h"

namespace tessera {
namespace {

using testkit::inputs_of;
using testkit::loss_of_stage;
using testkit::make_parts;
using testkit::Part;
using testkit::Parts;
using testkit::run_ranks;
using testkit::stages_of;
using testkit::targets_of;

constexpr double kExact = 1e-12;

std::string words_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return concat("ConfigError: ", error.what());
  } catch (const CommError& error) {
    return concat("CommError: ", error.what());
  } catch (const std::exception& error) {
    return concat("other: ", error.what());
  }
  return "nothing";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A model on a pipeline, and the same in this process alone.
struct Trial {
  Trial(const World& world, const Schedule& schedule)
      : parts(make_parts(schedule.num_stages())),
        reference(make_parts(schedule.num_stages())),
        mine(schedule.stages_of({world.rank().value})),
        pipeline(stages_of(parts, schedule, {world.rank().value}), schedule, world.group(),
                 {.loss = loss_of_stage}) {}

  // What a rank has to know of the batch, and nothing else.
  PipelineBatch batch(int64_t rows) const {
    PipelineBatch given;
    if (pipeline.has_first_stage()) given.inputs = {inputs_of(rows)};
    if (pipeline.has_last_stage()) given.target = targets_of(rows);
    return given;
  }

  double reference_step(int64_t rows) {
    const at::Tensor loss =
        testkit::loss_of(testkit::forward_all(reference, inputs_of(rows)), targets_of(rows));
    loss.backward();
    return loss.item<double>();
  }

  void check_step(int64_t rows) {
    const double wanted = reference_step(rows);
    const PipelineResult result = pipeline.step(batch(rows));
    RANK_EXPECT(result.losses.size() ==
                (pipeline.has_last_stage() ? size_t(pipeline.schedule().microbatches()) : 0));
    RANK_EXPECT(std::abs(pipeline.share_loss(result).item<double>() - wanted) < kExact) << rows;
    RANK_EXPECT(testkit::same_gradients(parts, reference, mine, kExact)) << rows;
    const auto simulated = simulate(pipeline.schedule(), {});
    const auto rank = static_cast<size_t>(pipeline.group().rank().value);
    RANK_EXPECT(result.peak_activations == simulated.ranks[rank].peak_activations)
        << result.peak_activations;
  }

  Parts parts;
  Parts reference;
  std::vector<int64_t> mine;
  Pipeline pipeline;
};

// ---- Every kind

std::optional<Schedule> schedule_of(const ScheduleConfig& config) {
  try {
    return make_schedule(config, {});
  } catch (const ConfigError&) {
    return std::nullopt;  // A number of microbatches that the kind does not take.
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
        Trial trial(world, schedule);
        trial.check_step(2 * schedule.microbatches());
        trial.check_step(2 * schedule.microbatches() + 1);  // Gradients of both steps add up.
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

// ---- Any table

void check_random_tables(int64_t world_size) {
  run_ranks(world_size, [](World& world) {
    const auto pp = static_cast<size_t>(world.size());
    testkit::for_random_inputs<Schedule>(
        world, 40, [&] { return testkit::RandomPlay(pp).play(); },
        [&](const Schedule& table) {
          Trial trial(world, table);
          trial.check_step(2 * table.microbatches() + 1);
          const Schedule deferred = lower(table, {.receives = Receives::kDeferred});
          Trial(world, deferred).check_step(table.microbatches());
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
    Trial(world, lower_in_step(one, true)).check_step(11);
    const Schedule gpipe = generate({.kind = ScheduleKind::kGPipe, .pp = 3, .microbatches = 2});
    Trial(world, lower_in_step(gpipe, false)).check_step(4);
  });
}

// ---- Batches

TEST(PipelineRanks, BatchesMayChangeTheirSize) {
  run_ranks(2, [](World& world) {
    const Schedule schedule = generate({.pp = 2, .microbatches = 4});
    for (const int64_t rows : {8, 5, 8, 7, 4, 8}) Trial(world, schedule).check_step(rows);
    Trial trial(world, schedule);
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
      Trial trial(world, schedule);
      PipelineBatch batch = trial.batch(9);
      batch.outputs = true;
      for (int repeat = 0; repeat < 2; ++repeat) {
        const PipelineResult result = trial.pipeline.evaluate(batch);
        const at::NoGradGuard no_grad;
        const at::Tensor output = testkit::forward_all(trial.reference, inputs_of(9));
        const double loss = testkit::loss_of(output, targets_of(9)).item<double>();
        RANK_EXPECT(std::abs(trial.pipeline.share_loss(result).item<double>() - loss) < kExact);
        RANK_EXPECT(result.outputs.size() == (trial.pipeline.has_last_stage() ? 1U : 0U));
        for (const at::Tensor& found : result.outputs) RANK_EXPECT(at::allclose(found, output));
        RANK_EXPECT(!trial.parts[size_t(trial.mine[0])].weight.grad().defined());
        RANK_EXPECT(result.peak_activations == 0);
      }
      trial.check_step(9);  // And training goes on.
    }
  });
}

// Two tensors and a mask cross; one of them is not used by the next stage's loss.
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
      Pipeline pipeline({stage}, schedule, world.group(), {.loss = loss_of_stage});
      for (int repeat = 0; repeat < 2; ++repeat) {
        pipeline.step({.inputs = {inputs_of(7)}, .target = targets_of(7)});
        Tensors all{inputs_of(7)};
        for (int64_t i = 0; i < 3; ++i) all = mixed_stage(reference[size_t(i)], all, i);
        testkit::loss_of(all[0], targets_of(7)).backward();
      }
      RANK_EXPECT(testkit::same_gradients(parts, reference, {mine}, kExact));
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
    Pipeline pipeline({stage}, schedule, world.group());
    const PipelineResult result =
        pipeline.evaluate({.inputs = {at::ones({5, 1})},
                           .keywords = {{"rows", at::arange(5, at::kDouble)}, {"factor", 3.0}},
                           .outputs = true});
    RANK_EXPECT(seen == std::vector<double>({0 + 1, 2 + 3, 4}));
    for (const at::Tensor& output : result.outputs) {
      RANK_EXPECT(output.equal(at::full({5, 1}, 9.F)));
    }
  });
}

// ---- Hooks

TEST(PipelineRanks, HooksAreCalledWhereTheTableSaysSo) {
  run_ranks(2, [](World& world) {
    const Schedule schedule =
        generate({.kind = ScheduleKind::kInterleaved1F1B, .pp = 2, .microbatches = 4});
    const Parts parts = make_parts(4);
    std::vector<Stage> stages = stages_of(parts, schedule, {world.rank().value});
    std::vector<std::string> events;
    for (Stage& stage : stages) {
      const auto note = [&events, index = stage.index](const char* what) {
        return [&events, index, what] { events.push_back(concat(index, what)); };
      };
      stage.hooks = {note("UNSHARD"), note("RESHARD"), note("REDUCE_GRAD"), note("LAST")};
    }
    Pipeline pipeline(stages, schedule, world.group(), {.loss = loss_of_stage});
    pipeline.step({.inputs = {inputs_of(8)}, .target = targets_of(8)});
    std::vector<std::string> wanted;
    std::map<int32_t, int> backwards;
    for (const Action& action : pipeline.schedule().row({world.rank().value})) {
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

// ---- What goes wrong

// The culprit tells its own error, the others who it was.
void check_told(const World& world, int64_t culprit, const std::string& own,
                const std::string& said, const std::string& place) {
  const bool right = world.rank().value == culprit
                         ? contains(said, own)
                         : contains(said, concat("CommError: rank ", culprit, " of group")) &&
                               contains(said, concat("failed at ", place));
  RANK_EXPECT(right) << said;
}

TEST(PipelineRanks, AStageThatThrowsEndsTheStepOnAllRanks) {
  run_ranks(4, [](World& world) {
    for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kZBVZeroBubble}) {
      const Schedule schedule = make_schedule({.kind = kind, .pp = 4, .microbatches = 8}, {});
      for (int64_t stage = 0; stage < schedule.num_stages(); ++stage) {
        Trial trial(world, schedule);
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
        Pipeline pipeline(stages, schedule, world.group(), {.loss = loss_of_stage});
        const int64_t culprit = schedule.rank_of(stage).value;
        const PipelineBatch batch{.inputs = {inputs_of(8)}, .target = targets_of(8)};
        const auto fails = [&] {
          const std::string said = words_of([&] { pipeline.step(batch); });
          check_told(world, culprit, "other: this stage has a bug", said, concat(stage, "F2"));
        };
        fails();  // While shapes are announced,
        throwing = false;
        pipeline.step(batch);
        throwing = true;
        fails();  // and when they are known.
        throwing = false;
        RANK_EXPECT(words_of([&] { pipeline.step(batch); }) == "nothing");
      }
    }
  });
}

TEST(PipelineRanks, OutputsThatAreNoTensorsAreTold) {
  run_ranks(2, [](World& world) {
    const Schedule schedule = generate({.pp = 2, .microbatches = 2});
    Stage stage{.index = world.rank().value, .forward = [](const Tensors& x, const StagePass& p) {
                  return p.stage == 0 ? Tensors{at::Tensor()} : x;
                }};
    Pipeline pipeline({stage}, schedule, world.group(), {.loss = loss_of_stage});
    const std::string said =
        words_of([&] { pipeline.step({.inputs = {inputs_of(4)}, .target = targets_of(4)}); });
    check_told(world, 0, "ConfigError: output 0 of stage 0 for microbatch 0 is no tensor", said,
               "0F0");
  });
}

TEST(PipelineRanks, ShapesThatChangeByThemselvesAreTold) {
  run_ranks(2, [](World& world) {
    const Schedule schedule = generate({.pp = 2, .microbatches = 2});
    const Parts parts = make_parts(2);
    int64_t width = testkit::kWidth;
    std::vector<Stage> stages = stages_of(parts, schedule, {world.rank().value});
    stages[0].forward = [&, inner = stages[0].forward](const Tensors& x, const StagePass& pass) {
      Tensors y = inner(x, pass);
      if (pass.stage == 0) y[0] = y[0].narrow(1, 0, width);
      return y;
    };
    Pipeline pipeline(stages, schedule, world.group(), {.loss = loss_of_stage});
    const PipelineBatch batch{.inputs = {inputs_of(4)}, .target = targets_of(4)};
    pipeline.step(batch);
    width = 2;
    const std::string said = words_of([&] { pipeline.step(batch); });
    check_told(world, 0, "ConfigError: stage 0 gave Double [2, 2]", said, "0SEND_F0");
  });
}

/// Something that all ranks must refuse, each with words of its own or of all.
struct Refusal {
  std::string name;
  std::function<void(World&)> act;
  std::string own;          // On the rank that it is about,
  int64_t culprit = -1;     // where there is one.
  std::string others = "";  // Empty: the same.
};

Pipeline two_stages(World& world, const Parts& parts) {
  const Schedule schedule = generate({.pp = 2, .microbatches = 4});
  return {stages_of(parts, schedule, {world.rank().value}),
          schedule,
          world.group(),
          {.loss = loss_of_stage}};
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
       "ConfigError: rank 1 has stage 7, but the table has stages 0 to 1"},
      {"no stage",
       [=](World& w) {
         with_stages(w, w.rank().value == 0 ? std::vector<int64_t>{0} : std::vector<int64_t>{});
       },
       "ConfigError: stage 1 is missing; the table has it on rank 1"},
      {"a stage twice",
       [=](World& w) {
         with_stages(w, w.rank().value == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1});
       },
       "ConfigError: stage 1 is there 2 times (on rank 0 and 1)"},
      {"stages on the wrong rank", [=](World& w) { with_stages(w, {1 - w.rank().value}); },
       "ConfigError: stage 0 is on rank 1; the table has it on rank 0"},
      {"a table for more ranks",
       [=](World& w) { Pipeline({}, generate({.pp = 4, .microbatches = 4}), w.group()); },
       "ConfigError: the table is for 4 ranks, but group world has 2"},
      {"different tables",
       [=](World& w) {
         Pipeline({}, generate({.pp = 2, .microbatches = 4 + w.rank().value}), w.group());
       },
       "ConfigError: ranks 0 and 1 of group world have different tables"},
      {"a table without messages",
       [=](World& w) {
         const Schedule table = with_reduce_grad(generate({.pp = 2, .microbatches = 2}));
         Pipeline(stages_of(parts, table, {w.rank().value}), table, w.group());
       },
       "ConfigError: table 1F1B has neither messages nor is it compute-only"},
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
       "ConfigError: a batch of 3 rows cannot be cut into 4 microbatches"},
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
         Pipeline(stages_of(parts, table, {w.rank().value}), table, w.group()).step(good);
       },
       "ConfigError: this rank has the last stage but no loss function", 1,
       "ConfigError: rank 1 of group world refused the step"},
      {"gradients off on one rank",
       [=](World& w) {
         at::AutoGradMode mode(w.rank().value == 0);
         step_with(w, good);
       },
       "ConfigError: a step needs gradients, but they are switched off here", 1,
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

TEST(PipelineRanks, BadInputIsRefusedByAllRanks) {
  run_ranks(2, [](World& world) {
    for (const Refusal& refusal : refusals()) {
      const std::string said = words_of([&] { refusal.act(world); });
      const bool about_me = refusal.culprit < 0 || refusal.culprit == world.rank().value;
      RANK_EXPECT(contains(said, about_me ? refusal.own : refusal.others))
          << refusal.name << ": " << said;
    }
    Trial(world, generate({.pp = 2, .microbatches = 4})).check_step(8);  // Nothing is left over.
  });
}

// ---- Memory

int64_t soaked(int64_t usual, int64_t soak) {
  return std::getenv("TESSERA_SOAK") == nullptr ? usual : soak;
}

TEST(PipelineRanks, MemoryDoesNotGrowWithSteps) {
  run_ranks(2, [](World& world) {
    testkit::LiveMemory& memory = testkit::LiveMemory::watch();
    const Schedule schedule =
        generate({.kind = ScheduleKind::kInterleaved1F1B, .pp = 2, .microbatches = 8});
    Trial trial(world, schedule);
    const PipelineBatch batch = trial.batch(16);
    for (int64_t step = 0; step < 5; ++step) trial.pipeline.step(batch);
    const int64_t before = memory.bytes();
    for (int64_t step = 0; step < soaked(100, 1000); ++step) trial.pipeline.step(batch);
    RANK_EXPECT(memory.settles_at(before - 4096, 8192)) << memory.bytes() << " after " << before;
  });
}

constexpr int64_t kMemoryRows = 1024;

// The most bytes that live at once on this rank, sampled in the stage itself.
int64_t most_live_bytes(World& world, int64_t microbatches) {
  const Schedule schedule = generate({.pp = 2, .microbatches = microbatches});
  Trial trial(world, schedule);
  testkit::LiveMemory& memory = testkit::LiveMemory::watch();
  std::vector<Stage> stages(trial.pipeline.stages().begin(), trial.pipeline.stages().end());
  int64_t most = 0;
  stages[0].forward = [&, inner = stages[0].forward](const Tensors& x, const StagePass& pass) {
    Tensors y = inner(x, pass);
    most = std::max(most, memory.bytes());
    return y;
  };
  Pipeline pipeline(stages, schedule, world.group(), {.loss = loss_of_stage});
  const PipelineBatch batch = trial.batch(kMemoryRows * microbatches);
  pipeline.step(batch);
  const int64_t held = memory.bytes();
  most = 0;
  for (int repeat = 0; repeat < 3; ++repeat) pipeline.step(batch);
  return most - held;
}

TEST(PipelineRanks, MoreMicrobatchesTakeNoMoreMemory) {
  run_ranks(2, [](World& world) {
    // Some tensors of a microbatch, for when an engine lets go of them a moment later; and the
    // losses.
    constexpr int64_t kSlack = 4 * kMemoryRows * testkit::kWidth * 8 + 128 * 64;
    const int64_t few = most_live_bytes(world, 32);
    const int64_t many = most_live_bytes(world, 128);
    RANK_EXPECT(many <= few + kSlack) << few << " bytes, then " << many;
  });
}

// ---- Time

// Seconds of a forward, an input gradient and a weight gradient at least: long beside what a busy
// machine takes to wake somebody up.
constexpr double kUnit = 0.05;
bool resting = false;

void rest() {
  if (resting) std::this_thread::sleep_for(std::chrono::duration<double>(kUnit));
}

// A layer that takes time without needing a core.
class Slow : public torch::autograd::Function<Slow> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, int64_t deferred) {
    context->saved_data["deferred"] = deferred;
    rest();
    return x * weight;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    rest();
    const auto address = context->saved_data["deferred"].toInt();
    const auto* const later = reinterpret_cast<const WeightGradients*>(address);
    if (later != nullptr) {
      later->add(rest);
    } else {
      rest();
    }
    return {gradients[0], gradients[0].sum(), {}};
  }
};

Stage slow_stage(int64_t index, const at::Tensor& weight) {
  return {.index = index,
          .forward =
              [weight](const Tensors& inputs, const StagePass& pass) {
                const auto deferred = reinterpret_cast<int64_t>(pass.deferred);
                return Tensors{Slow::apply(inputs[0], weight, deferred)};
              },
          .defers = true};
}

// How many rests an action takes.
double units_of(const Action& action) {
  double units = 0;
  for (const Task& task : action.tasks()) units += task.type == ActionType::kBackward ? 2 : 1;
  return units;
}

struct Measured {
  double makespan = 0;
  double unit = 0;  // What a rest really took, on average over all ranks.
};

Measured measure(World& world, const std::vector<RecordedAction>& actions) {
  double length = 0;
  double units = 0;
  for (const RecordedAction& recorded : actions) {
    length += recorded.time.length();
    units += units_of(recorded.action);
  }
  const auto starts = all_gather_object(actions.front().time.start, world.group());
  const auto ends = all_gather_object(actions.back().time.end, world.group());
  const at::Tensor sums =
      all_reduce(at::tensor({length, units}, at::kDouble), world.group()).wait();
  return {std::ranges::max(ends) - std::ranges::min(starts), (sums[0] / sums[1]).item<double>()};
}

Measured measured_step(World& world, const Schedule& schedule) {
  const at::Tensor weight = at::ones({}).requires_grad_();
  std::vector<Stage> stages;
  for (const int64_t index : schedule.stages_of({world.rank().value})) {
    stages.push_back(slow_stage(index, weight));
  }
  Pipeline pipeline(stages, schedule, world.group(), {.loss = loss_of_stage});
  const int64_t rows = schedule.microbatches();
  const PipelineBatch batch{
      .inputs = {at::ones({rows, 1})}, .target = at::zeros({rows, 1}), .record = true};
  resting = false;
  pipeline.step(batch);  // Shapes are announced.
  resting = true;
  return measure(world, pipeline.step(batch).record->actions);
}

TEST(PipelineRanks, StepsTakeAsLongAsSimulated) {
  run_ranks(4, [](World& world) {
    for (const ScheduleKind kind : testkit::kAllKinds) {
      const Schedule schedule = make_schedule({.kind = kind, .pp = 4, .microbatches = 8}, {});
      const Measured measured = measured_step(world, schedule);
      const double simulated = simulate(schedule, {}).makespan * measured.unit;
      if (world.rank().value == 0) {
        std::cout << to_string(kind) << ": " << measured.makespan / simulated
                  << " of the simulation, rests of " << measured.unit << " s\n";
      }
      RANK_EXPECT(measured.unit >= kUnit);
      RANK_EXPECT(std::abs(measured.makespan / simulated - 1) <= 0.1)
          << to_string(kind) << " took " << measured.makespan << " s, simulated " << simulated;
    }
  });
}

TEST(PipelineRanks, ARecordIsTheRanksRow) {
  run_ranks(2, [](World& world) {
    const Schedule schedule =
        make_schedule({.kind = ScheduleKind::kDualPipeV, .pp = 2, .microbatches = 4}, {});
    Trial trial(world, schedule);
    PipelineBatch batch = trial.batch(8);
    RANK_EXPECT(!trial.pipeline.step(batch).record);
    batch.record = true;
    batch.step = 17;
    const auto record = trial.pipeline.step(batch).record;
    ASSERT_TRUE(record.has_value());
    RANK_EXPECT(record->schedule == "DualPipeV" && record->shape == schedule.shape());
    RANK_EXPECT(record->step == 17 && record->rank.value == world.rank().value);
    ScheduleRow row;
    double now = 0;
    for (const RecordedAction& recorded : record->actions) {
      row.push_back(recorded.action);
      RANK_EXPECT(now <= recorded.time.start && recorded.time.start <= recorded.time.end);
      now = recorded.time.end;
    }
    RANK_EXPECT(row == schedule.without_idle().row({world.rank().value}));
    std::vector<PipelineRecord> all;
    for (const std::string& text : all_gather_object(to_json(*record), world.group())) {
      all.push_back(parse_pipeline_record(text, "a rank"));
    }
    RANK_EXPECT(join_records(all).schedule.rows()[0] == schedule.without_idle().rows()[0]);
  });
}

}  // namespace
}  // namespace tessera
