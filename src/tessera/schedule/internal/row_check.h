#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/schedule/internal/stage_grid.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

/// Checks everything that does not depend on the timing of other ranks: every action occurs once,
/// after its dependencies on its own rank, and none is missing.
class RowCheck {
 public:
  explicit RowCheck(const Schedule& schedule);

  /// ConfigError with row, column and rule of the first violation.
  void run();

  int64_t num_actions() const { return num_actions_; }
  int64_t num_messages() const { return num_messages_; }
  /// Whether any two ranks send and receive in the same order, so that messages need no tags.
  bool same_order() const { return same_order_; }

 private:
  /// Whether a stage's parameters are gathered; kAlways until an action gathers or frees them.
  enum class Gather : uint8_t { kAlways, kFreed, kUnused, kUsed };
  struct StageState {
    Gather gather = Gather::kAlways;
    bool computed = false;
    bool reduced = false;
    int64_t backwards = 0;  // B and W.
  };
  /// The index of a message among those between the same ranks, per side; -1: not seen yet.
  struct MessageOrder {
    int32_t sent = -1;
    int32_t received = -1;
  };

  StageState& state(const Task& task) { return stages_[static_cast<size_t>(task.stage)]; }
  static uint8_t bit(ActionType type) {
    return static_cast<uint8_t>(1U << (static_cast<unsigned>(type) - 1));
  }
  bool has(ActionType type, int32_t stage, int32_t microbatch) {
    return (done_(stage, microbatch) & bit(type)) != 0;
  }
  bool has_result(const Task& consumer, int32_t producer);

  void walk(size_t row);
  void note(const Task& task);
  void number(const Task& message);

  std::string_view broken_rule(const Task& task);
  std::string_view broken_rule_of_compute(const Task& task);
  std::string_view broken_rule_of_message(const Task& message);
  std::string_view broken_rule_of_stage(const Task& task);
  std::string_view missing_input(const Task& task);

  void check_complete(int32_t stage, int32_t microbatch);
  void check_sent(const Task& task);
  void check_stages() const;

  const Schedule& schedule_;
  bool same_order_ = true;
  int64_t num_actions_ = 0;
  int64_t num_messages_ = 0;
  StageGrid<uint8_t> done_;  // One bit per type that has a microbatch.
  std::vector<StageState> stages_;
  std::array<StageGrid<MessageOrder>, 2> order_;  // Forward and backward, by receiving stage.
  std::vector<int32_t> sent_;                     // By peer, for the current row.
  std::vector<int32_t> received_;
};

}  // namespace tessera::schedule::detail
