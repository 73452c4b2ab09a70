#include "tessera/parallel/unit_recorder.h"

#include <algorithm>
#include <mutex>
#include <optional>

namespace tessera {
namespace data_parallel::detail {

struct RecordedSpan {
  std::string unit;
  UnitAction action;
  UnitRecorder::Time start;
  std::optional<UnitRecorder::Time> end = std::nullopt;
};

struct RecordedSpans {
  std::mutex mutex = {};
  std::vector<RecordedSpan> list = {};
};

}  // namespace data_parallel::detail

using namespace data_parallel::detail;

void UnitSpan::end() const {
  if (!spans_) return;
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(spans_->mutex);
  auto& end = spans_->list[index_].end;
  if (!end) end = now;
}

UnitSpan UnitLog::begin(UnitAction action) const {
  UnitSpan span;
  if (!spans_) return span;
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(spans_->mutex);
  span.spans_ = spans_;
  span.index_ = spans_->list.size();
  spans_->list.push_back({.unit = unit_, .action = action, .start = now});
  return span;
}

UnitRecorder UnitRecorder::recording() {
  UnitRecorder recorder;
  recorder.spans_ = std::make_shared<RecordedSpans>();
  return recorder;
}

UnitLog UnitRecorder::log_of(const std::string& unit) const {
  UnitLog log;
  if (!spans_) return log;
  log.spans_ = spans_;
  log.unit_ = unit;
  return log;
}

std::vector<UnitEvent> UnitRecorder::events(Time origin, Time end) const {
  std::vector<UnitEvent> events;
  if (!spans_) return events;
  const auto seconds = [&](Time time) {
    return std::chrono::duration<double>(std::clamp(time, origin, end) - origin).count();
  };
  const std::lock_guard lock(spans_->mutex);
  for (const RecordedSpan& span : spans_->list) {
    events.push_back(
        {span.unit, span.action, {seconds(span.start), seconds(span.end.value_or(end))}});
  }
  return events;
}

}  // namespace tessera
