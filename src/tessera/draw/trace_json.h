#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A row of a process, on which events are shown.
struct TraceTrack {
  int64_t process = 0;  // Number of the process, e.g. a rank.
  int64_t thread = 0;   // Number of the row within the process.

  friend auto operator<=>(const TraceTrack&, const TraceTrack&) = default;
};

/// A point in time on a row.
struct TracePoint {
  TraceTrack track = {};  // The row.
  /// Since the start of the trace: viewers store times as floating-point numbers, which cannot hold
  /// nanoseconds since the epoch exactly.
  int64_t at_ns = 0;
};

/// A block of a trace.
struct TraceSpan {
  TraceTrack track = {};                                          // The row.
  std::string name = {};                                          // Shown in the block.
  int64_t begin_ns = 0;                                           // Since the start of the trace.
  int64_t end_ns = 0;                                             // Not before begin_ns.
  std::vector<std::pair<std::string, std::string>> details = {};  // Shown if the user selects it.
};

/// Writes a trace in Chrome's JSON format, which Perfetto (ui.perfetto.dev) and chrome://tracing
/// open. Spans of one row must be disjoint or nested; see assign_rows.
class TraceWriter {
 public:
  explicit TraceWriter(std::ostream& out);

  /// Viewers show processes, and the rows of a process, in the order of their numbers.
  void name_process(int64_t process, std::string_view name);
  /// The label of a row.
  void name_thread(TraceTrack track, std::string_view name);

  /// Writes a block.
  void span(const TraceSpan& span);
  /// Writes a mark without a length, for the whole process.
  void instant(const TracePoint& point, std::string_view name);
  /// Writes the value that a curve of the process has from this point on.
  void counter(const TracePoint& point, std::string_view name, double value);
  /// An arrow through the points, which are in order of time; each must be within a span of its
  /// row.
  void flow(std::span<const TracePoint> points, std::string_view name);

  /// Call once, at the end.
  void finish();

 private:
  std::ostream& begin(std::string_view phase, const TracePoint& point, std::string_view name);
  void metadata(std::string_view what, TraceTrack track, std::string_view argument);

  std::ostream& out_;
  std::string_view between_ = "\n";
  int64_t flows_ = 0;
};

/// A time range, in nanoseconds.
struct TimeRange {
  int64_t begin_ns = 0;  // Since any one origin.
  int64_t end_ns = 0;    // Since the same origin; exclusive.
};
/// Assigns a row to each range, so that ranges of one row do not overlap, with few rows. `ranges`
/// must be sorted by begin.
std::vector<size_t> assign_rows(std::span<const TimeRange> ranges);

}  // namespace tessera
