// Properties of schedules for random shapes and random valid tables, and the simulator compared
// with a time-stepped one.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/schedule/csv.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/lower.h"
#include "tessera/schedule/simulate.h"
#include "tessera/schedule/verify.h"
#include "tests/testkit/random_tables.h"

namespace tessera {
namespace {

using testkit::any_below;
using enum ActionType;

// On a few ranks.
Schedule any_table(size_t least_ranks = 1) {
  return testkit::RandomPlay(least_ranks + any_below(4)).play();
}

// A configuration that its family accepts.
ScheduleConfig any_config() {
  ScheduleConfig config;
  config.kind = static_cast<ScheduleKind>(any_below(7));
  config.pp = *rc::gen::inRange<int64_t>(1, 7);
  const int64_t v = *rc::gen::inRange<int64_t>(1, 4);
  const bool fixed =
      is_single_stage(config.kind) || placement_of(config.kind) == StagePlacement::kV;
  config.stages_per_rank = fixed ? default_stages_per_rank(config.kind) : v;
  config.microbatches = *rc::gen::inRange<int64_t>(1, 5) * config.pp;
  if (config.kind == ScheduleKind::kDualPipeV) config.microbatches += config.pp * 2;
  return config;
}

/// Simulates the same pipeline in time steps: in each step, every free rank starts its next action
/// if all its inputs are ready. Costs are whole numbers.
class Clock {
 public:
  Clock(const Schedule& schedule, const Costs& costs) : schedule_(schedule), costs_(costs) {}

  std::vector<std::vector<TimeSpan>> run() {
    std::vector<std::vector<TimeSpan>> spans(schedule_.rows().size());
    const auto unfinished = [&] {
      for (size_t r = 0; r < spans.size(); ++r) {
        if (spans[r].size() < schedule_.rows()[r].size()) return true;
      }
      return false;
    };
    for (now_ = 0; unfinished(); ++now_) {
      for (bool progress = true; progress;) {
        progress = false;
        for (size_t r = 0; r < spans.size(); ++r) progress = start_next(r, spans[r]) || progress;
      }
    }
    return spans;
  }

 private:
  bool start_next(size_t rank, std::vector<TimeSpan>& spans) {
    const ScheduleRow& row = schedule_.rows()[rank];
    if (spans.size() == row.size() || (!spans.empty() && spans.back().end > now_)) return false;
    const Action& action = row[spans.size()];
    double length = 0;
    for (const Task& task : action.tasks()) {
      if (!is_there(task)) return false;
      length += length_of(task);
    }
    for (const Task& task : action.tasks())
      ends_[{side(task.type), task.stage, task.microbatch}] = now_ + length;
    // An action without duration happens when the previous one ends.
    spans.push_back({now_, now_ + length});
    return true;
  }

  static int side(ActionType type) { return type == kForward ? 0 : type == kWeightGrad ? 2 : 1; }
  double per_stage(const std::vector<double>& values, int32_t stage) const {
    return values.size() == 1 ? values[0] : values[static_cast<size_t>(stage)];
  }
  double length_of(const Task& task) const {
    const double input = per_stage(costs_.input_grad, task.stage);
    const double weight = per_stage(costs_.weight_grad, task.stage);
    if (task.type == kForward) return per_stage(costs_.forward, task.stage);
    if (task.type == kInputGrad) return input;
    return task.type == kWeightGrad ? weight : input + weight;
  }
  bool is_there(const Task& task) const {
    const int32_t from = task.stage + (task.type == kForward ? -1 : 1);
    if (task.type == kWeightGrad || from < 0 || from == schedule_.num_stages()) return true;
    const auto end = ends_.find({side(task.type), from, task.microbatch});
    const bool message = schedule_.rank_of(from) != schedule_.rank_of(task.stage);
    return end != ends_.end() &&
           end->second + (message ? per_stage(costs_.message, from) : 0) <= now_;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  double now_ = 0;
  std::map<std::tuple<int, int32_t, int32_t>, double> ends_;
};

std::vector<double> any_times(int64_t stages, int least) {
  std::vector<double> times;
  for (int64_t i = 0; i < stages; ++i) times.push_back(*rc::gen::inRange(least, 5));
  return times;
}

Costs any_costs(int64_t stages) {
  return {.forward = any_times(stages, 1),
          .input_grad = any_times(stages, 1),
          .weight_grad = any_times(stages, 1),
          .message = any_times(stages, 0)};
}

RC_GTEST_PROP(ScheduleProperty, EveryGeneratedScheduleVerifies, ()) {
  const Schedule schedule = generate(any_config());
  verify(schedule);
  verify(lower(schedule));
  verify(lower(schedule, {.receives = Receives::kDeferred}));
}

RC_GTEST_PROP(ScheduleProperty, RandomTablesVerifyInEveryForm, ()) {
  const Schedule schedule = any_table();
  RC_ASSERT(!verify(schedule).communicates);
  const Schedule early = lower(schedule);
  RC_ASSERT(verify(early).same_order);
  RC_ASSERT(verify(lower(schedule, {.receives = Receives::kDeferred})).sends == SendMode::kPosted);
  RC_ASSERT(verify(merge_backward(schedule)).num_messages == verify(schedule).num_messages);
}

RC_GTEST_PROP(ScheduleProperty, SimulationEqualsATickingClock, ()) {
  const bool random = *rc::gen::arbitrary<bool>();
  const Schedule schedule = (random ? any_table() : generate(any_config())).without_idle();
  const Costs costs = any_costs(schedule.num_stages());
  RC_ASSERT(simulate(schedule, costs).spans == Clock(schedule, costs).run());
}

RC_GTEST_PROP(ScheduleProperty, LoweringKeepsTheTimes, ()) {
  const Schedule schedule = any_table();
  const Costs costs = any_costs(schedule.num_stages());
  const double makespan = simulate(schedule, costs).makespan;
  RC_ASSERT(simulate(lower(schedule), costs).makespan == makespan);
  RC_ASSERT(simulate(lower(schedule, {.receives = Receives::kDeferred}), costs).makespan ==
            makespan);
}

RC_GTEST_PROP(ScheduleProperty, TheMemoryCurvePeaksWhereTheSimulationSays, ()) {
  const Schedule schedule = any_table();
  const Simulation result = simulate(schedule, any_costs(schedule.num_stages()));
  for (int64_t rank = 0; rank < schedule.pp(); ++rank) {
    int64_t peak = 0;
    const auto curve = live_activations(schedule, result, GroupRank{rank});
    for (const LiveActivations& change : curve) peak = std::max(peak, change.live);
    RC_ASSERT(peak == result.ranks[static_cast<size_t>(rank)].peak_activations);
    RC_ASSERT(curve.back().live == 0);
  }
}

RC_GTEST_PROP(ScheduleProperty, CsvIsReadAsItWasWritten, ()) {
  const Schedule schedule = any_table();
  RC_ASSERT(parse_schedule_csv(to_csv(schedule, CsvFormat::kComputeOnly), "random") == schedule);
  const Schedule lowered = lower(schedule);
  RC_ASSERT(parse_schedule_csv(to_csv(lowered, CsvFormat::kComms), "random",
                               {.format = CsvFormat::kComms}) == lowered);
}

std::vector<ScheduleRow> rows_of(const Schedule& schedule) {
  return {schedule.rows().begin(), schedule.rows().end()};
}

// Anything but an idle slot, UNSHARD or RESHARD, which a table may omit.
bool matters(const Action& action) {
  return !action.is_idle() && action.type() != kUnshard && action.type() != kReshard;
}

// An action that cannot be omitted.
std::pair<size_t, size_t> any_place(const std::vector<ScheduleRow>& rows) {
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (matters(rows[r][c])) places.emplace_back(r, c);
    }
  }
  return places[any_below(places.size())];
}

bool is_refused(const Schedule& original, std::vector<ScheduleRow> rows) {
  try {
    verify(Schedule(original.name(), original.shape(), std::move(rows), original.sends()));
  } catch (const ConfigError&) {
    return true;
  }
  return false;
}

// The only REDUCE_GRAD of a table with one stage may be omitted: then no stage has one.
RC_GTEST_PROP(ScheduleProperty, ATableWithoutOneActionIsRefused, ()) {
  const Schedule compute = any_table();
  const bool lowered = *rc::gen::arbitrary<bool>() && compute.num_stages() > 1;
  const Schedule schedule = lowered ? lower(compute) : compute;
  auto rows = rows_of(schedule);
  const auto [r, c] = any_place(rows);
  rows[r].erase(rows[r].begin() + static_cast<std::ptrdiff_t>(c));
  RC_ASSERT(is_refused(schedule, std::move(rows)));
}

RC_GTEST_PROP(ScheduleProperty, ATableWithARepeatedActionIsRefused, ()) {
  const Schedule compute = any_table();
  const Schedule schedule = *rc::gen::arbitrary<bool>() ? lower(compute) : compute;
  auto rows = rows_of(schedule);
  const auto [r, c] = any_place(rows);
  const size_t to = any_below(rows[r].size() + 1);
  rows[r].insert(rows[r].begin() + static_cast<std::ptrdiff_t>(to), Action(rows[r][c]));
  RC_ASSERT(is_refused(schedule, std::move(rows)));
}

RC_GTEST_PROP(ScheduleProperty, ABackwardBeforeItsForwardIsRefused, ()) {
  const Schedule compute = any_table();
  const Schedule schedule = *rc::gen::arbitrary<bool>() ? lower(compute) : compute;
  auto rows = rows_of(schedule);
  const size_t r = any_below(rows.size());
  const auto is_forward = [](const Action& a) { return a.type() == kForward; };
  const auto forward = std::ranges::find_if(rows[r], is_forward);
  const auto backward = std::ranges::find_if(rows[r], [&](const Action& a) {
    return !a.is_idle() && gives_input_grad(a.type()) &&
           a.tasks()[0].stage == forward->tasks()[0].stage &&
           a.tasks()[0].microbatch == forward->tasks()[0].microbatch;
  });
  std::iter_swap(forward, backward);
  RC_ASSERT(is_refused(schedule, std::move(rows)));
}

RC_GTEST_PROP(ScheduleProperty, AnActionOnAnotherRankIsRefused, ()) {
  const Schedule schedule = lower(any_table(2));
  auto rows = rows_of(schedule);
  const auto [r, c] = any_place(rows);
  const size_t other = (r + 1 + any_below(rows.size() - 1)) % rows.size();
  rows[other].push_back(rows[r][c]);
  rows[r].erase(rows[r].begin() + static_cast<std::ptrdiff_t>(c));
  RC_ASSERT(is_refused(schedule, std::move(rows)));
}

// GPipe's last rank does all forwards first, so a first rank that wants a backward before its last
// forward waits forever.
RC_GTEST_PROP(ScheduleProperty, ADeadlockIsRefusedWithItsCycle, ()) {
  const int64_t pp = *rc::gen::inRange<int64_t>(2, 7);
  const int64_t m = *rc::gen::inRange<int64_t>(2, 7);
  const Schedule schedule = generate({.kind = ScheduleKind::kGPipe, .pp = pp, .microbatches = m});
  auto rows = rows_of(schedule);
  const auto backward = rows[0].begin() + *rc::gen::inRange<int64_t>(m, 2 * m - 1);
  const int32_t microbatch = backward->tasks()[0].microbatch;
  const auto to = rows[0].begin() + *rc::gen::inRange<int64_t>(microbatch + 1, m);
  std::rotate(to, backward, backward + 1);
  try {
    verify(Schedule("deadlock", schedule.shape(), std::move(rows)));
    RC_FAIL("it was not refused");
  } catch (const ConfigError& error) {
    // The first rank waits for the second, whose next forward waits for the first.
    const std::string message = error.what();
    const auto says = [&](const std::string& text) {
      return message.find(text) != std::string::npos;
    };
    RC_ASSERT(says(concat("rank 0 waits at 0B", microbatch, " ")));
    RC_ASSERT(says(concat("for 1B", microbatch, " of rank 1")));
    RC_ASSERT(says("rank 1 waits at 1F"));
    RC_ASSERT(says("of rank 0 "));
  }
}

}  // namespace
}  // namespace tessera
