#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/unit_record.h"

namespace tessera TSR_API {

namespace data_parallel::detail {
struct RecordedSpans;
}

/// A time from UnitLog::begin() until end(). Copies are the same span. Any thread may end it.
class UnitSpan {
 public:
  UnitSpan() = default;  // Records nothing.
  /// Only the first call counts.
  void end() const;

 private:
  friend class UnitLog;
  std::shared_ptr<data_parallel::detail::RecordedSpans> spans_ = nullptr;
  size_t index_ = 0;
};

/// Where a unit records what it does. A default one records nothing and costs nothing. Any thread.
class UnitLog {
 public:
  UnitLog() = default;
  /// Whether begin() records; false for a default one.
  bool is_recording() const { return spans_ != nullptr; }
  /// A span of this action, from now on.
  [[nodiscard]] UnitSpan begin(UnitAction action) const;

 private:
  friend class UnitRecorder;
  std::shared_ptr<data_parallel::detail::RecordedSpans> spans_ = nullptr;
  std::string unit_ = {};
};

/// Records what the units of a rank do in one step. Copies record into the same list. A default
/// one records nothing and costs nothing. Any thread.
///
///   UnitRecorder recorder = UnitRecorder::recording();
///   const UnitLog log = recorder.log_of("model.layers.0");
///   const UnitSpan span = log.begin(UnitAction::kForward); … ; span.end();
class UnitRecorder {
 public:
  /// A time of the clock that measures the spans.
  using Time = std::chrono::steady_clock::time_point;

  UnitRecorder() = default;
  /// One that records, into a new list.
  static UnitRecorder recording();

  /// Whether its logs record; false for a default one.
  bool is_recording() const { return spans_ != nullptr; }
  /// The log of the unit of this name, into the same list.
  UnitLog log_of(const std::string& unit) const;
  /// What was recorded, in seconds since `origin`. Spans are cut at `origin` and `end`; those that
  /// have not ended last until `end`.
  std::vector<UnitEvent> events(Time origin, Time end) const;

 private:
  std::shared_ptr<data_parallel::detail::RecordedSpans> spans_ = nullptr;
};

}  // namespace tessera
