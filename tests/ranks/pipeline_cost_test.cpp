// A pipeline step takes the memory and the time of its simulation, and records them.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tests/ranks/pipeline_trial.h"
#include "tests/testkit/live_memory.h"
#include "tests/testkit/schedules.h"

namespace tessera {
namespace {

using testkit::loss_of_stage;
using testkit::PipelineTrial;
using testkit::run_ranks;

// ---- Memory

int64_t soaked(int64_t usual, int64_t soak) {
  return std::getenv("TESSERA_SOAK") == nullptr ? usual : soak;
}

TEST(PipelineCosts, MemoryDoesNotGrowWithSteps) {
  run_ranks(2, [](World& world) {
    testkit::LiveMemory& memory = testkit::LiveMemory::watch();
    const Schedule schedule =
        generate({.kind = ScheduleKind::kInterleaved1F1B, .pp = 2, .microbatches = 8});
    PipelineTrial trial(world, schedule);
    const PipelineBatch batch = trial.batch(16);
    for (int64_t step = 0; step < 5; ++step) trial.pipeline.step(batch);
    const int64_t before = memory.bytes();
    for (int64_t step = 0; step < soaked(100, 1000); ++step) trial.pipeline.step(batch);
    RANK_EXPECT(memory.settles_at(before - 4096, 8192)) << memory.bytes() << " after " << before;
  });
}

constexpr int64_t kMemoryRows = 1024;

// Peak memory of this rank in bytes, sampled in the stage itself.
int64_t most_live_bytes(World& world, int64_t microbatches) {
  const Schedule schedule = generate({.pp = 2, .microbatches = microbatches});
  PipelineTrial trial(world, schedule);
  testkit::LiveMemory& memory = testkit::LiveMemory::watch();
  std::vector<Stage> stages(trial.pipeline.stages().begin(), trial.pipeline.stages().end());
  int64_t most = 0;
  stages[0].forward = [&, inner = stages[0].forward](const Tensors& x, const StagePass& pass) {
    Tensors y = inner(x, pass);
    most = std::max(most, memory.bytes());
    return y;
  };
  Pipeline pipeline(stages, schedule, world.group(),
                    {.loss = loss_of_stage, .device = testkit::device()});
  const PipelineBatch batch = trial.batch(kMemoryRows * microbatches);
  pipeline.step(batch);
  const int64_t held = memory.bytes();
  most = 0;
  for (int repeat = 0; repeat < 3; ++repeat) pipeline.step(batch);
  return most - held;
}

TEST(PipelineCosts, MoreMicrobatchesTakeNoMoreMemory) {
  run_ranks(2, [](World& world) {
    // A few tensors of a microbatch, because an engine may release them a moment later; and the
    // losses.
    constexpr int64_t kSlack = 4 * kMemoryRows * testkit::kWidth * 8 + 128 * 64;
    const int64_t few = most_live_bytes(world, 32);
    const int64_t many = most_live_bytes(world, 128);
    RANK_EXPECT(many <= few + kSlack) << few << " bytes, then " << many;
  });
}

// ---- Time

// Least seconds of a forward, an input gradient and a weight gradient: long compared with the
// wake-up latency of a busy machine.
constexpr double kUnit = 0.05;
bool resting = false;

void rest() {
  if (resting) std::this_thread::sleep_for(std::chrono::duration<double>(kUnit));
}

// A layer that takes time without using a core.
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
  double unit = 0;  // Measured time of a rest, averaged over all ranks.
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
  for (const int64_t index : schedule.stages_of(GroupRank{world.rank().value})) {
    stages.push_back(slow_stage(index, weight));
  }
  Pipeline pipeline(stages, schedule, world.group(),
                    {.loss = loss_of_stage, .device = testkit::device()});
  const int64_t rows = schedule.microbatches();
  const PipelineBatch batch{
      .inputs = {at::ones({rows, 1})}, .target = at::zeros({rows, 1}), .record = true};
  resting = false;
  pipeline.step(batch);  // Announces the shapes.
  resting = true;
  return measure(world, pipeline.step(batch).record->actions);
}

TEST(PipelineCosts, StepsTakeAsLongAsSimulated) {
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

TEST(PipelineCosts, ARecordIsTheRanksRow) {
  run_ranks(2, [](World& world) {
    const Schedule schedule =
        make_schedule({.kind = ScheduleKind::kDualPipeV, .pp = 2, .microbatches = 4}, {});
    PipelineTrial trial(world, schedule);
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
    RANK_EXPECT(row == schedule.without_idle().row(GroupRank{world.rank().value}));
    std::vector<PipelineRecord> all;
    for (const std::string& text : all_gather_object(to_json(*record), world.group())) {
      all.push_back(parse_pipeline_record(text, "a rank"));
    }
    RANK_EXPECT(join_records(all).schedule.rows()[0] == schedule.without_idle().rows()[0]);
  });
}

}  // namespace
}  // namespace tessera
