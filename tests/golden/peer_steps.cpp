#include "tests/golden/peer_steps.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "tessera/base/check.h"

namespace tessera::golden {
namespace {

using enum ActionType;

class DrySteps {
 public:
  explicit DrySteps(const Schedule& schedule) {
    for (const ScheduleRow& row : schedule.rows()) {
      std::vector<Task>& tasks = rows_.emplace_back();
      for (const Action& action : row) {
        for (const Task& task : action.tasks()) {
          if (has_microbatch(task.type)) tasks.push_back(task);
        }
      }
    }
    next_.resize(rows_.size());
    lengths_.resize(rows_.size());
  }

  int64_t run() {
    while (!finished()) step();
    return *std::ranges::max_element(lengths_);
  }

 private:
  bool finished(size_t rank) const { return next_[rank] == rows_[rank].size(); }
  bool finished() const {
    for (size_t rank = 0; rank < rows_.size(); ++rank) {
      if (!finished(rank)) return false;
    }
    return true;
  }

  void step() {
    std::vector<size_t> idle;
    bool progress = false;
    for (size_t rank = 0; rank < rows_.size(); ++rank) {
      if (finished(rank)) continue;
      ++lengths_[rank];
      if (perform(rank)) {
        progress = true;
      } else {
        idle.push_back(rank);
      }
    }
    for (const size_t rank : idle) progress = perform(rank) || progress;
    TSR_CHECK(progress, "the table never ends");
  }

  bool perform(size_t rank) {
    const Task& task = rows_[rank][next_[rank]];
    if (!is_ready(task)) return false;
    done_.insert(key(task.type, task.stage, task.microbatch));
    ++next_[rank];
    return true;
  }

  // All that a task needs has happened; what it needs of its own rank stands before it.
  bool is_ready(const Task& task) const {
    const int32_t i = task.microbatch;
    if (task.type == kRecvForward) return done(kSendForward, task.stage - 1, i);
    if (task.type == kRecvBackward) return done(kSendBackward, task.stage + 1, i);
    return true;
  }

  using Key = std::tuple<ActionType, int32_t, int32_t>;
  static Key key(ActionType type, int32_t stage, int32_t microbatch) {
    return {type, stage, microbatch};
  }
  bool done(ActionType type, int32_t stage, int32_t i) const {
    return done_.contains(key(type, stage, i));
  }

  std::vector<std::vector<Task>> rows_;
  std::vector<size_t> next_;
  std::vector<int64_t> lengths_;
  std::set<Key> done_;
};

}  // namespace

int64_t peer_steps(const Schedule& lowered) {
  return DrySteps(lowered).run();
}

}  // namespace tessera::golden
