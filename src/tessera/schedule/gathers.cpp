#include <algorithm>
#include <array>

#include "tessera/schedule/internal/lowering.h"

namespace tessera::schedule::detail {
namespace {

constexpr size_t kStagesAhead = 3;

/// The next stages of a row in the order in which they are needed. An action adds all its stages
/// at once, so one with two stages may exceed the wanted number by one.
struct Window {
  std::array<int32_t, kStagesAhead + 1> stages{};
  size_t size = 0;

  bool has(int32_t stage) const {
    for (size_t i = 0; i < size; ++i) {
      if (stages[i] == stage) return true;
    }
    return false;
  }
};

/// The stages of a row after a place, nearest first. Walks from the end, so the cost is linear in
/// the length of the row.
class Upcoming {
 public:
  void put_before(const Action& action, size_t column) {
    const auto tasks = action.tasks();
    for (size_t i = tasks.size(); i > 0; --i) {
      const int32_t stage = tasks[i - 1].stage;
      auto entry = std::ranges::find(list_, stage, &Entry::stage);
      if (entry == list_.end()) entry = list_.insert(entry, {stage, column});
      entry->column = column;
      std::rotate(list_.begin(), entry, entry + 1);
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

bool is_exactly(const Window& window, const std::vector<int32_t>& active) {
  return active.size() == window.size &&
         std::ranges::all_of(active, [&](int32_t stage) { return window.has(stage); });
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
  result.reserve(row.size() + 8);
  for (size_t column = 0; column < row.size(); ++column) {
    const Window& window = windows[column];
    if (!is_exactly(window, active)) {
      free_others(window, active, result);
      gather_missing(window, active, result);
    }
    result.push_back(row[column]);
  }
  free_others({}, active, result);
  return result;
}

}  // namespace tessera::schedule::detail
