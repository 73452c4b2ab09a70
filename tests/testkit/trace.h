#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tessera::testkit {

/// Checks Perfetto's rules for a trace in Chrome's JSON format. Returns its events.
inline nlohmann::json checked_trace(const std::string& text) {
  using nlohmann::json;
  struct Span {
    double begin, end;
  };
  const json events = json::parse(text).at("traceEvents");
  std::map<std::pair<int64_t, int64_t>, std::vector<Span>> rows;
  std::map<std::pair<int64_t, int64_t>, int> names;
  std::map<int64_t, std::vector<json>> flows;
  for (const json& event : events) {
    const std::pair<int64_t, int64_t> row{event.at("pid"), event.at("tid")};
    const double begin = event.at("ts");
    EXPECT_GE(begin, 0);
    if (event["ph"] == "X") rows[row].push_back({begin, begin + event.at("dur").get<double>()});
    if (event["name"] == "process_name") names[{row.first, 0}]++;
    if (event["name"] == "thread_name") names[row]++;
    if (event.contains("id")) flows[event["id"]].push_back(event);
  }
  for (auto& [row, spans] : rows) {
    EXPECT_EQ(names[row], 1) << "a row has one name";
    EXPECT_EQ(names[(std::pair{row.first, int64_t{0}})], 1) << "a process has one name";
    std::ranges::sort(spans, {}, &Span::begin);
    for (size_t i = 1; i < spans.size(); ++i) {
      EXPECT_LE(spans[i - 1].end, spans[i].begin + 1e-6) << "spans overlap on one row";
    }
  }
  for (const auto& [id, points] : flows) {
    EXPECT_GE(points.size(), 2U);
    for (size_t i = 0; i < points.size(); ++i) {
      const json& point = points[i];
      EXPECT_EQ(point["ph"], i == 0 ? "s" : (i + 1 == points.size() ? "f" : "t"));
      EXPECT_LE(points[i == 0 ? 0 : i - 1]["ts"], point["ts"]) << "arrows go forward in time";
      const auto& spans = rows[{point["pid"], point["tid"]}];
      EXPECT_TRUE(std::ranges::any_of(spans, [&](const Span& span) {
        return span.begin <= point["ts"] && point["ts"] <= span.end;
      })) << "an arrow begins and ends in spans";
    }
  }
  return events;
}

}  // namespace tessera::testkit
