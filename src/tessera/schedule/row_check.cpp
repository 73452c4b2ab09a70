#include "tessera/schedule/internal/row_check.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/schedule/internal/flow.h"

namespace tessera::schedule::detail {
namespace {

using enum ActionType;

ScheduleShape shape_if(bool wanted, const ScheduleShape& shape) {
  return wanted ? shape : ScheduleShape{.pp = 0, .num_stages = 0, .microbatches = 0};
}

}  // namespace

RowCheck::RowCheck(const Schedule& schedule)
    : schedule_(schedule),
      done_(schedule.shape(), 0),
      stages_(static_cast<size_t>(schedule.num_stages())),
      order_{StageGrid<MessageOrder>(shape_if(schedule.communicates(), schedule.shape()), {}),
             StageGrid<MessageOrder>(shape_if(schedule.communicates(), schedule.shape()), {})} {}

void RowCheck::run() {
  for (size_t row = 0; row < schedule_.rows().size(); ++row) walk(row);
  for (int32_t stage = 0; stage < schedule_.num_stages(); ++stage) {
    for (int32_t i = 0; i < schedule_.microbatches(); ++i) check_complete(stage, i);
  }
  check_stages();
}

// Whether the stage has produced what the consumer needs.
bool RowCheck::has_result(const Task& consumer, int32_t producer) {
  const int32_t i = consumer.microbatch;
  if (consumer.type == kForward) return has(kForward, producer, i);
  return has(kBackward, producer, i) || has(kInputGrad, producer, i);
}

void RowCheck::walk(size_t row) {
  sent_.assign(schedule_.communicates() ? schedule_.rows().size() : 0, 0);
  received_ = sent_;
  const ScheduleRow& actions = schedule_.rows()[row];
  for (size_t column = 0; column < actions.size(); ++column) {
    // The tasks of one action cannot depend on each other.
    for (const Task& task : actions[column].tasks()) {
      const std::string_view rule = broken_rule(task);
      TSR_CHECK(rule.empty(), "row ", row, ", column ", column, ": ", to_string(task), ": ", rule);
    }
    for (const Task& task : actions[column].tasks()) note(task);
    num_actions_ += actions[column].is_idle() ? 0 : 1;
  }
}

void RowCheck::note(const Task& task) {
  StageState& stage = state(task);
  if (has_microbatch(task.type)) done_(task.stage, task.microbatch) |= bit(task.type);
  if (is_send(task.type) || is_receive(task.type)) number(task);
  if (is_compute(task.type)) {
    stage.computed = true;
    if (stage.gather == Gather::kUnused) stage.gather = Gather::kUsed;
    if (is_elsewhere(schedule_, task, producer_stage(schedule_, task))) ++num_messages_;
  }
  if (frees_activation(task.type)) ++stage.backwards;
  if (task.type == kUnshard) stage.gather = Gather::kUnused;
  if (task.type == kReshard) stage.gather = Gather::kFreed;
  if (task.type == kReduceGrad) stage.reduced = true;
}

void RowCheck::number(const Task& message) {
  const bool sends = is_send(message.type);
  const Task other = counterpart(message);
  const auto peer = static_cast<size_t>(schedule_.rank_of(other.stage).value);
  MessageOrder& order = order_[goes_forward(message.type) ? 0 : 1](
      sends ? other.stage : message.stage, message.microbatch);
  (sends ? order.sent : order.received) = (sends ? sent_ : received_)[peer]++;
  const bool both = order.sent >= 0 && order.received >= 0;
  if (both && order.sent != order.received) same_order_ = false;
}

std::string_view RowCheck::broken_rule(const Task& task) {
  if (!has_microbatch(task.type)) return broken_rule_of_stage(task);
  if (has(task.type, task.stage, task.microbatch))
    return "it appears twice; each action must appear once";
  return is_compute(task.type) ? broken_rule_of_compute(task) : broken_rule_of_message(task);
}

std::string_view RowCheck::broken_rule_of_compute(const Task& task) {
  const auto has_own = [&](ActionType type) { return has(type, task.stage, task.microbatch); };
  if (state(task).gather == Gather::kFreed) return "its stage's UNSHARD must come first";
  if (task.type == kForward) return missing_input(task);
  if (task.type == kWeightGrad) return has_own(kInputGrad) ? "" : "its I must come first";
  if (!has_own(kForward)) return "its forward must come first";
  if (has_own(kBackward) || has_own(kInputGrad))
    return "a backward must be either one B, or an I and a W";
  return missing_input(task);
}

std::string_view RowCheck::missing_input(const Task& task) {
  const int32_t producer = producer_stage(schedule_, task);
  if (producer == kNoStage) return "";
  if (is_elsewhere(schedule_, task, producer)) {
    const ActionType receive = receive_of(task).type;
    if (!schedule_.communicates() || has(receive, task.stage, task.microbatch)) return "";
    return task.type == kForward ? "its RECV_F must come first" : "its RECV_B must come first";
  }
  if (has_result(task, producer)) return "";
  return task.type == kForward
             ? "the forward of the previous stage, on the same rank, must come first"
             : "the backward of the next stage, on the same rank, must come first";
}

std::string_view RowCheck::broken_rule_of_message(const Task& message) {
  const int32_t other = counterpart(message).stage;
  if (other < 0 || other >= schedule_.num_stages()) return "there is no stage at the other end";
  if (!is_elsewhere(schedule_, message, other)) {
    return "the stage at the other end lies on the same rank, so no message is needed";
  }
  if (message.type == kSendForward && !has(kForward, message.stage, message.microbatch)) {
    return "its forward must come first";
  }
  const Task backward{kBackward, message.stage, message.microbatch};
  if (message.type == kSendBackward && !has_result(backward, message.stage)) {
    return "its B or I must come first";
  }
  return "";
}

std::string_view RowCheck::broken_rule_of_stage(const Task& task) {
  const StageState& stage = state(task);
  const bool gathered = stage.gather == Gather::kUnused || stage.gather == Gather::kUsed;
  if (task.type == kUnshard) {
    if (gathered) return "its stage is already gathered";
    return stage.gather == Gather::kAlways && stage.computed ? "its stage has already computed"
                                                             : "";
  }
  if (task.type == kReshard) {
    if (!gathered) return "its stage is not gathered; an UNSHARD must come first";
    return stage.gather == Gather::kUnused ? "nothing was computed since its UNSHARD" : "";
  }
  if (stage.reduced) return "it appears twice; a stage's gradients are reduced once";
  return stage.backwards < schedule_.microbatches() ? "every B or W of its stage must come first"
                                                    : "";
}

void RowCheck::check_complete(int32_t stage, int32_t microbatch) {
  const auto refuse = [&](ActionType type) {
    throw ConfigError(concat("row ", schedule_.rank_of(stage), ": ",
                             to_string(Task{type, stage, microbatch}),
                             " is missing; every stage needs each microbatch once as F and once as "
                             "B, or as I and W"));
  };
  const auto missing = [&](ActionType type) { return !has(type, stage, microbatch); };
  if (missing(kForward)) refuse(kForward);
  if (missing(kBackward) && missing(kInputGrad)) refuse(kBackward);
  if (missing(kBackward) && missing(kWeightGrad)) refuse(kWeightGrad);
  if (!schedule_.communicates()) return;
  check_sent({kForward, stage, microbatch});
  check_sent({kBackward, stage, microbatch});
}

void RowCheck::check_sent(const Task& task) {
  const int32_t consumer = consumer_stage(schedule_, task);
  if (!is_elsewhere(schedule_, task, consumer)) return;
  const Task send = send_of(task);
  TSR_CHECK(has(send.type, send.stage, send.microbatch), "row ", schedule_.rank_of(task.stage),
            ": ", to_string(send), " is missing; stage ", consumer, " on rank ",
            schedule_.rank_of(consumer), " waits for it");
}

void RowCheck::check_stages() const {
  const bool reduces = std::ranges::any_of(stages_, &StageState::reduced);
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    const auto rank = schedule_.rank_of(static_cast<int64_t>(stage));
    TSR_CHECK(stages_[stage].gather != Gather::kUnused, "row ", rank, ": ", stage,
              "UNSHARD: nothing is computed after it");
    TSR_CHECK(!reduces || stages_[stage].reduced, "row ", rank, ": ", stage,
              "REDUCE_GRAD is missing; either all stages or none must have one");
  }
}

}  // namespace tessera::schedule::detail
