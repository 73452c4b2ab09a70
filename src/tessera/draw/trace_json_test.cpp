#include "tessera/draw/trace_json.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/testkit/trace.h"

namespace tessera {
namespace {

using nlohmann::json;

TEST(TraceWriter, WritesEveryKindOfEvent) {
  std::ostringstream out;
  TraceWriter writer(out);
  writer.name_process(3, "rank \"3\"");
  writer.name_thread({3, 1}, "dp");
  writer.name_thread({3, 2}, "tp");
  writer.span({.track = {3, 1}, .name = "forward", .begin_ns = 1'234'567, .end_ns = 1'234'568});
  writer.span({{3, 2}, "backward", 2'000'000, 3'000'000, {{"state", "completed\n"}}});
  writer.instant({{3, 1}, 7}, "mark");
  writer.counter({{3, 0}, 1000}, "memory", 2.5);
  writer.flow(std::vector<TracePoint>{{{3, 1}, 1'234'567}, {{3, 2}, 2'000'000}}, "arrow");
  writer.finish();
  const json events = testkit::checked_trace(out.str());
  ASSERT_EQ(events.size(), 12U);
  EXPECT_EQ(events[0]["args"]["name"], "rank \"3\"");
  EXPECT_EQ(events[6],
            json::parse(R"({"ph": "X", "name": "forward", "pid": 3, "tid": 1, "ts": 1234.567,
                            "dur": 0.001, "args": {}})"));
  EXPECT_EQ(events[7]["args"]["state"], "completed\n");
  EXPECT_EQ(events[8]["s"], "p");
  EXPECT_EQ(events[9]["args"]["memory"], 2.5);
  EXPECT_EQ(events[11]["bp"], "e");
}

TEST(TraceWriter, AnEmptyTraceIsOne) {
  std::ostringstream out;
  TraceWriter(out).finish();
  EXPECT_TRUE(testkit::checked_trace(out.str()).empty());
}

TEST(AssignRows, NeighboursShareARow) {
  const std::vector<TimeRange> ranges{{0, 10}, {0, 5}, {5, 6}, {6, 6}, {7, 20}, {10, 11}};
  EXPECT_EQ(assign_rows(ranges), (std::vector<size_t>{0, 1, 1, 1, 1, 0}));
}

RC_GTEST_PROP(AssignRows, RowsNeverOverlapAndAreFew, ()) {
  auto begins = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 50));
  std::ranges::sort(begins);
  std::vector<TimeRange> ranges;
  for (const int64_t begin : begins) ranges.push_back({begin, begin + *rc::gen::inRange(0, 10)});
  const std::vector<size_t> rows = assign_rows(ranges);
  for (size_t i = 0; i < ranges.size(); ++i) {
    size_t at_once = 1;
    for (size_t j = 0; j < i; ++j) {
      if (rows[i] == rows[j]) RC_ASSERT(ranges[j].end_ns <= ranges[i].begin_ns);
      if (ranges[j].end_ns > ranges[i].begin_ns) ++at_once;
    }
    RC_ASSERT(rows[i] < at_once);
  }
}

}  // namespace
}  // namespace tessera
