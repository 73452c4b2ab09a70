#include <algorithm>
#include <array>

#include "tessera/schedule/internal/lowering.h"

namespace tessera::detail {
namespace {

constexpr size_t kStagesAhead = 3;

/// The next stages of a row in the order in which they are needed. An action adds all its stages
/// at once, so that one with two may pass the number wanted by one.
struct Window {
  std::array<int32_t, kStagesAhead + 1> stages{};
  size_t size = 0;

  bool has(int32_t stage) const {
    return std::find(stages.begin(), stages.begin() + size, stage) != stages.begin() + size;
  }
};

/// The stages of a row behind a place, nearest first. Walks from the end, so that a row costs its
/// length and not the square of it.
class Upcoming {
 public:
  void put_before(const Action& action, size_t column) {
    const auto tasks = action.tasks();
    for (size_t i = tasks.size(); i > 0; --i) {
      std::erase_if(list_, [&](const Entry& e) { return e.stage == tasks[i - 1].stage; });
      list_.insert(list_.begin(), {tasks[i - 1].stage, column});
    }
  }

  Window window() const {
    Window window;
    for (const Entry& entry : list_) {
      const bool full = window.size >= kStagesAhead;
      if (full && entry.column != list_[window.size - 1].column) break;
      if (window.size == window.stages.size()) break;
      window.stages[window.size++] = entry.stage;
    }
    return window;
  }

 private:
  struct Entry {
    int32_t stage = 0;
    size_t column = 0;
  };
  std::vector<Entry> list_;
};

std::vector<Window> windows_of(const ScheduleRow& row) {
  std::vector<Window> windows(row.size());
  Upcoming upcoming;
  for (size_t column = row.size(); column > 0; --column) {
    upcoming.put_before(row[column - 1], column - 1);
    windows[column - 1] = upcoming.window();
  }
  return windows;
}

void add(ScheduleRow& row, ActionType type, int32_t stage) {
  row.emplace_back(Task{.type = type, .stage = stage});
}

void free_others(const Window& window, std::vector<int32_t>& active, ScheduleRow& result) {
  std::erase_if(active, [&](int32_t stage) {
    if (window.has(stage)) return false;
    add(result, ActionType::kReshard, stage);
    return true;
  });
}

void gather_missing(const Window& window, std::vector<int32_t>& active, ScheduleRow& result) {
  for (size_t i = 0; i < window.size; ++i) {
    if (std::ranges::find(active, window.stages[i]) != active.end()) continue;
    add(result, ActionType::kUnshard, window.stages[i]);
    active.push_back(window.stages[i]);
  }
}

}  // namespace

ScheduleRow with_gathers(const ScheduleRow& row) {
  const std::vector<Window> windows = windows_of(row);
  std::vector<int32_t> active;
  ScheduleRow result;
  for (size_t column = 0; column < row.size(); ++column) {
    free_others(windows[column], active, result);
    gather_missing(windows[column], active, result);
    result.push_back(row[column]);
  }
  free_others({}, active, result);
  return result;
}

}  // namespace tessera::detail
