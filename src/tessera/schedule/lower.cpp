#include "tessera/schedule/lower.h"

#include <algorithm>
#include <iterator>

#include "tessera/base/check.h"
#include "tessera/schedule/internal/flow.h"
#include "tessera/schedule/internal/lowering.h"
#include "tessera/schedule/internal/row_check.h"
#include "tessera/schedule/verify.h"

namespace tessera {
namespace {

using schedule::detail::is_elsewhere;

Action stage_action(ActionType type, int32_t stage) {
  return Action(Task{.type = type, .stage = stage});
}

void check_compute_only(const Schedule& schedule) {
  for (size_t row = 0; row < schedule.rows().size(); ++row) {
    const ScheduleRow& actions = schedule.rows()[row];
    const auto bad = std::ranges::find_if(
        actions, [](const Action& a) { return !a.computes() && !a.is_idle(); });
    TSR_CHECK(bad == actions.end(), "row ", row, ", column ", bad - actions.begin(), ": ", *bad,
              " is not a compute action; only tables of F, B, I, W and overlaps can be lowered");
  }
}

ScheduleRow dense(const ScheduleRow& row) {
  ScheduleRow result;
  result.reserve(row.size());
  std::ranges::remove_copy_if(row, std::back_inserter(result), &Action::is_idle);
  return result;
}

// The row with REDUCE_GRAD right after each stage's last B or W.
ScheduleRow reduced(const ScheduleRow& row, const ScheduleShape& shape) {
  std::vector<int64_t> left(static_cast<size_t>(shape.num_stages), shape.microbatches);
  ScheduleRow result;
  result.reserve(row.size() + 2);
  for (const Action& action : row) {
    result.push_back(action);
    for (const Task& task : action.tasks()) {
      const bool counts = frees_activation(task.type);
      if (counts && --left[static_cast<size_t>(task.stage)] == 0) {
        result.push_back(stage_action(ActionType::kReduceGrad, task.stage));
      }
    }
  }
  return result;
}

// Adds to each F, B and I the receive of its input before it and the send of its result after it.
ScheduleRow with_messages(const Schedule& schedule, const ScheduleRow& row) {
  ScheduleRow result;
  for (const Action& action : row) {
    for (const Task& task : action.tasks()) {
      if (is_elsewhere(schedule, task, schedule::detail::producer_stage(schedule, task))) {
        result.emplace_back(schedule::detail::receive_of(task));
      }
    }
    result.push_back(action);
    for (const Task& task : action.tasks()) {
      if (is_elsewhere(schedule, task, schedule::detail::consumer_stage(schedule, task))) {
        result.emplace_back(schedule::detail::send_of(task));
      }
    }
  }
  return result;
}

bool is_exchange(const Schedule& schedule, const Action& send, const Action& receive) {
  if (!is_send(send.type()) || !is_receive(receive.type())) return false;
  return schedule.rank_of(schedule::detail::counterpart(send.tasks()[0]).stage) ==
         schedule.rank_of(schedule::detail::counterpart(receive.tasks()[0]).stage);
}

// Combines a send and a directly following receive from the same rank into one batch.
ScheduleRow fused_exchanges(const Schedule& schedule, const ScheduleRow& row) {
  ScheduleRow result;
  for (const Action& action : row) {
    if (!result.empty() && is_exchange(schedule, result.back(), action)) {
      result.back() = Action::batch(result.back().tasks()[0], action.tasks()[0]);
    } else {
      result.push_back(action);
    }
  }
  return result;
}

bool is_split_backward(const Action& input, const Action& weight) {
  return input.type() == ActionType::kInputGrad && weight.type() == ActionType::kWeightGrad &&
         input.tasks()[0].stage == weight.tasks()[0].stage &&
         input.tasks()[0].microbatch == weight.tasks()[0].microbatch;
}

ScheduleRow merged(const ScheduleRow& row) {
  ScheduleRow result;
  for (const Action& action : row) {
    if (!result.empty() && is_split_backward(result.back(), action)) {
      Task backward = action.tasks()[0];
      backward.type = ActionType::kBackward;
      result.back() = Action(backward);
    } else {
      result.push_back(action);
    }
  }
  return result;
}

}  // namespace

Schedule lower(const Schedule& compute, const LowerOptions& options) {
  check_compute_only(compute);
  schedule::detail::RowCheck(compute).run();  // Adding messages finds deadlocks.
  std::vector<ScheduleRow> rows;
  for (const ScheduleRow& row : compute.rows()) {
    ScheduleRow& lowered = rows.emplace_back(dense(row));
    if (!options.messages_only)
      lowered = reduced(schedule::detail::with_gathers(lowered), compute.shape());
  }
  rows = schedule::detail::with_early_receives(compute, rows);
  if (options.receives == Receives::kEarly) {
    return {compute.name(), compute.shape(), std::move(rows)};
  }
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    rows[rank] = schedule::detail::with_deferred_receives(compute, rows[rank], rank);
  }
  return {compute.name(), compute.shape(), std::move(rows), SendMode::kPosted};
}

Schedule lower_in_step(const Schedule& compute, bool fused) {
  check_compute_only(compute);
  verify(compute);
  std::vector<ScheduleRow> rows;
  for (int64_t rank = 0; rank < compute.pp(); ++rank) {
    ScheduleRow row = with_messages(compute, dense(compute.row(GroupRank{rank})));
    if (fused) row = fused_exchanges(compute, row);
    for (const int64_t stage : compute.stages_of(GroupRank{rank})) {
      row.push_back(stage_action(ActionType::kReduceGrad, static_cast<int32_t>(stage)));
    }
    rows.push_back(std::move(row));
  }
  return {compute.name(), compute.shape(), std::move(rows)};
}

Schedule with_reduce_grad(const Schedule& compute) {
  check_compute_only(compute);
  std::vector<ScheduleRow> rows;
  for (const ScheduleRow& row : compute.rows()) rows.push_back(reduced(row, compute.shape()));
  return {compute.name(), compute.shape(), std::move(rows)};
}

Schedule merge_backward(const Schedule& compute) {
  check_compute_only(compute);
  std::vector<ScheduleRow> rows;
  for (const ScheduleRow& row : compute.rows()) rows.push_back(merged(dense(row)));
  return {compute.name(), compute.shape(), std::move(rows)};
}

}  // namespace tessera
