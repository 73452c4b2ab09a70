#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// What a rank does in one slot of a pipeline table, with the names of the text form.
enum class ActionType : uint8_t {
  kIdle,          // "": nothing; only in tables aligned to time steps.
  kForward,       // F
  kBackward,      // B: input and weight gradients together.
  kInputGrad,     // I: the input gradient, which the previous stage waits for.
  kWeightGrad,    // W: the weight gradient, later than its I.
  kSendForward,   // SEND_F: the stage is the sender's.
  kRecvForward,   // RECV_F: the stage is the receiver's.
  kSendBackward,  // SEND_B
  kRecvBackward,  // RECV_B
  kUnshard,       // UNSHARD: all-gathers a stage's parameters. No microbatch.
  kReshard,       // RESHARD: frees the gathered parameters. No microbatch.
  kReduceGrad,    // REDUCE_GRAD: reduces and scales a stage's gradients, once. No microbatch.
  kOverlap,       // (0F3;3B1)OVERLAP_F_B: a forward and a backward as one action.
  kBatch,         // {0SEND_F3,0RECV_B0}: a send and a receive posted together.
};

/// "F", "SEND_F", "OVERLAP_F_B"; "" for idle, "{}" for a batch.
std::string_view to_string(ActionType type);

/// F, B, I and W: the types that take compute time.
constexpr bool is_compute(ActionType type) {
  return type >= ActionType::kForward && type <= ActionType::kWeightGrad;
}
/// Whether the action sends a tensor.
constexpr bool is_send(ActionType type) {
  return type == ActionType::kSendForward || type == ActionType::kSendBackward;
}
/// Whether the action receives a tensor.
constexpr bool is_receive(ActionType type) {
  return type == ActionType::kRecvForward || type == ActionType::kRecvBackward;
}
/// B and I: the types that produce a gradient for the previous stage.
constexpr bool gives_input_grad(ActionType type) {
  return type == ActionType::kBackward || type == ActionType::kInputGrad;
}
/// B and W: the types that free the activation of a forward.
constexpr bool frees_activation(ActionType type) {
  return type == ActionType::kBackward || type == ActionType::kWeightGrad;
}
/// UNSHARD, RESHARD and REDUCE_GRAD concern a stage, all other types one microbatch of a stage.
constexpr bool has_microbatch(ActionType type) {
  return type >= ActionType::kForward && type <= ActionType::kRecvBackward;
}

/// One operation for one stage; never an overlap or a batch, whose parts are tasks.
struct Task {
  ActionType type = ActionType::kIdle;  // Not kOverlap or kBatch.
  int32_t stage = -1;                   // From 0, over all ranks; -1 if idle.
  int32_t microbatch = -1;              // -1 if the type has none.

  friend bool operator==(const Task&, const Task&) = default;
};

/// "3SEND_F1".
std::string to_string(const Task& task);

/// One slot of a pipeline table: nothing, a task, or two tasks at once.
///
///   const Action a = parse_action("(0F3;3B1)OVERLAP_F_B");
///   for (const Task& task : a.tasks()) …   // 0F3, then 3B1
///
/// A small value without pointers: tables hold millions.
class Action {
 public:
  /// An idle slot.
  Action() = default;
  /// ConfigError if stage or microbatch is negative, or given although the type has none.
  Action(ActionType type, int32_t stage, int32_t microbatch)
      : type_(type),
        num_tasks_(type == ActionType::kIdle ? 0 : 1),
        tasks_{Task{type, stage, microbatch}} {
    if (!is_valid(type, stage, microbatch)) refuse(tasks_[0]);
  }
  explicit Action(const Task& task) : Action(task.type, task.stage, task.microbatch) {}
  /// One forward and one backward (B) of different stages, in either order.
  static Action overlap(Task first, Task second);
  /// One send and one receive, in either order.
  static Action batch(Task first, Task second);

  /// kOverlap or kBatch if there are two tasks.
  ActionType type() const { return type_; }
  /// Whether the slot has no task.
  bool is_idle() const { return type_ == ActionType::kIdle; }
  /// F, B, I, W and overlaps.
  bool computes() const { return is_compute(type_) || type_ == ActionType::kOverlap; }
  /// None for an idle slot, two for an overlap or a batch, otherwise one.
  std::span<const Task> tasks() const& { return {tasks_.data(), num_tasks_}; }
  std::vector<Task> tasks() && { return {tasks_.data(), tasks_.data() + num_tasks_}; }

  friend bool operator==(const Action&, const Action&) = default;

 private:
  Action(ActionType type, Task first, Task second);
  static constexpr bool is_valid(ActionType type, int32_t stage, int32_t microbatch) {
    if (has_microbatch(type)) return stage >= 0 && microbatch >= 0;
    if (type == ActionType::kIdle) return stage == -1 && microbatch == -1;
    return type <= ActionType::kReduceGrad && stage >= 0 && microbatch == -1;
  }
  [[noreturn]] static void refuse(const Task& task);

  ActionType type_ = ActionType::kIdle;
  uint8_t num_tasks_ = 0;
  std::array<Task, 2> tasks_{};
};

/// The text form; "" for an idle slot.
std::string to_string(const Action& action);
/// Writes to_string(action).
std::ostream& operator<<(std::ostream& out, const Action& action);

/// Parses the text form as PyTorch does: drops white space around it and around the parts of an
/// overlap or a batch, and empty parts; an empty text is an idle slot. Otherwise DataError names
/// the text and the rule. docs/schedules.md lists texts that PyTorch accepts and this refuses.
Action parse_action(std::string_view text);

}  // namespace tessera
