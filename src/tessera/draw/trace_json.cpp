#include "tessera/draw/trace_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/text.h"

namespace tessera {
namespace {

std::string in_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Microseconds, exact to the nanosecond: 1234567 as "1234.567".
std::string microseconds(int64_t ns) {
  std::string digits = std::to_string(ns % 1000);
  digits.insert(0, 3 - digits.size(), '0');
  return concat(ns / 1000, ".", digits);
}

}  // namespace

TraceWriter::TraceWriter(std::ostream& out) : out_(out) {
  out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
}

// Writes an event without its closing brace.
std::ostream& TraceWriter::begin(std::string_view phase, const TracePoint& point,
                                 std::string_view name) {
  out_ << between_ << "{\"ph\":\"" << phase << "\",\"name\":" << in_json(name)
       << ",\"pid\":" << point.track.process << ",\"tid\":" << point.track.thread
       << ",\"ts\":" << microseconds(point.at_ns);
  between_ = ",\n";
  return out_;
}

void TraceWriter::metadata(std::string_view what, TraceTrack track, std::string_view argument) {
  begin("M", {track, 0}, what) << ",\"args\":{" << argument << "}}";
}

void TraceWriter::name_process(int64_t process, std::string_view name) {
  metadata("process_name", {process, 0}, concat("\"name\":", in_json(name)));
  metadata("process_sort_index", {process, 0}, concat("\"sort_index\":", process));
}

void TraceWriter::name_thread(TraceTrack track, std::string_view name) {
  metadata("thread_name", track, concat("\"name\":", in_json(name)));
  metadata("thread_sort_index", track, concat("\"sort_index\":", track.thread));
}

void TraceWriter::span(const TraceSpan& span) {
  begin("X", {span.track, span.begin_ns}, span.name)
      << ",\"dur\":" << microseconds(span.end_ns - span.begin_ns) << ",\"args\":{";
  std::string_view between;
  for (const auto& [key, value] : span.details) {
    out_ << between << in_json(key) << ":" << in_json(value);
    between = ",";
  }
  out_ << "}}";
}

void TraceWriter::instant(const TracePoint& point, std::string_view name) {
  begin("i", point, name) << ",\"s\":\"p\"}";  // Scope: the whole process.
}

void TraceWriter::counter(const TracePoint& point, std::string_view name, double value) {
  begin("C", point, name) << ",\"args\":{" << in_json(name) << ":" << nlohmann::json(value) << "}}";
}

void TraceWriter::flow(std::span<const TracePoint> points, std::string_view name) {
  ++flows_;
  for (size_t i = 0; i < points.size(); ++i) {
    const bool last = i + 1 == points.size();
    begin(i == 0 ? "s" : (last ? "f" : "t"), points[i], name)
        << ",\"cat\":\"flow\",\"id\":" << flows_
        << (last ? ",\"bp\":\"e\"}" : "}");  // Binds to the enclosing span, not to the next one.
  }
}

void TraceWriter::finish() {
  out_ << "\n]}\n";
}

std::vector<size_t> assign_rows(std::span<const TimeRange> ranges) {
  std::vector<size_t> rows;
  std::vector<int64_t> free_from;  // By row.
  for (const TimeRange& range : ranges) {
    const auto free =
        std::ranges::find_if(free_from, [&](int64_t from) { return from <= range.begin_ns; });
    rows.push_back(static_cast<size_t>(free - free_from.begin()));
    if (free == free_from.end()) {
      free_from.push_back(range.end_ns);
    } else {
      *free = range.end_ns;
    }
  }
  return rows;
}

}  // namespace tessera
