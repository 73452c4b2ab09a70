#include "tessera/draw/step_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace tessera {
namespace {

using nlohmann::json;

TEST(StepTrace, HasRowsForStepsOperatorsAndCommunicationAndACounter) {
  StepTrace trace{.rank = 3, .start_ns = 1000};
  trace.steps = {{.step = 7, .time = {2000, 9000}}};
  trace.operators = {{"aten::mm", 0, {3000, 4000}}, {"aten::mm", 1, {3000, 5000}}};
  trace.memory = {{"cpu", 3500, 4096}};
  trace.communication.groups = {{.id = 0, .name = "g", .desc = "dp", .ranks = {}}};
  FlightEntry entry{.profiling_name = "gloo:all_reduce", .time_created_ns = 4000};
  entry.time_completed_ns = 6000;
  trace.communication.entries = {entry, entry, entry};
  trace.communication.entries[2].time_created_ns = 500;  // Before the step.
  std::ostringstream out;
  write_step_trace(trace, out);
  const json events = json::parse(out.str()).at("traceEvents");
  std::vector<std::string> rows, spans;
  int counters = 0;
  for (const json& event : events) {
    if (event["ph"] == "M" && event["name"] == "thread_name") rows.push_back(event["args"]["name"]);
    if (event["ph"] == "X") spans.push_back(event["name"]);
    if (event["ph"] == "C") ++counters;
    EXPECT_EQ(event["pid"], 3);
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"steps", "operators, thread 0", "operators, thread 1",
                                            "communication, dp", "communication, dp"}));
  ASSERT_EQ(spans.size(), 5U);
  EXPECT_EQ(spans[0], "step 7");
  EXPECT_EQ(counters, 1);
}

}  // namespace
}  // namespace tessera
