#pragma once

#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

inline constexpr int32_t kNoStage = -1;

/// The stage whose result the task needs; kNoStage if it needs none of another stage.
inline int32_t producer_stage(const Schedule& schedule, const Task& task) {
  if (task.type == ActionType::kForward) return task.stage - 1;
  if (!gives_input_grad(task.type) || task.stage + 1 == schedule.num_stages()) return kNoStage;
  return task.stage + 1;
}

/// The stage that needs the task's result; kNoStage if none does.
inline int32_t consumer_stage(const Schedule& schedule, const Task& task) {
  if (gives_input_grad(task.type)) return task.stage - 1;
  const bool last = task.stage + 1 == schedule.num_stages();
  return task.type != ActionType::kForward || last ? kNoStage : task.stage + 1;
}

/// Whether the other stage exists and lies on another rank, so that a message is needed.
inline bool is_elsewhere(const Schedule& schedule, const Task& task, int32_t other_stage) {
  return other_stage != kNoStage && schedule.rank_of(other_stage) != schedule.rank_of(task.stage);
}

/// Whether the task belongs to the forward direction.
inline bool goes_forward(ActionType type) {
  return type == ActionType::kForward || type == ActionType::kSendForward ||
         type == ActionType::kRecvForward;
}

/// The send of the result of F, B or I.
inline Task send_of(const Task& task) {
  const bool forward = goes_forward(task.type);
  return {forward ? ActionType::kSendForward : ActionType::kSendBackward, task.stage,
          task.microbatch};
}

/// The receive that F, B or I needs.
inline Task receive_of(const Task& task) {
  const bool forward = goes_forward(task.type);
  return {forward ? ActionType::kRecvForward : ActionType::kRecvBackward, task.stage,
          task.microbatch};
}

/// The receive of a send, or the send of a receive. Its stage may not exist.
inline Task counterpart(const Task& message) {
  const bool forward = goes_forward(message.type);
  const int32_t step = forward == is_send(message.type) ? 1 : -1;
  ActionType type = forward ? ActionType::kRecvForward : ActionType::kRecvBackward;
  if (is_receive(message.type))
    type = forward ? ActionType::kSendForward : ActionType::kSendBackward;
  return {type, message.stage + step, message.microbatch};
}

}  // namespace tessera::schedule::detail
