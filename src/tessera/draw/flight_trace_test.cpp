#include "tessera/draw/flight_trace.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/testkit/flight.h"
#include "tests/testkit/trace.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::FlightRun;
const FlightTensor kGrad{{1024, 8}, "Float"};

json trace_of(const std::vector<FlightDump>& dumps) {
  std::ostringstream out;
  write_flight_trace(dumps, out);
  return testkit::checked_trace(out.str());
}

std::vector<json> events_of(const json& events, const char* phase) {
  std::vector<json> found;
  std::ranges::copy_if(events, std::back_inserter(found),
                       [&](const json& event) { return event["ph"] == phase; });
  return found;
}

TEST(FlightTrace, ShowsEachRankAndItsOperations) {
  FlightRun run(2);
  run.add_group("dp", {0, 1});
  run.collective("dp", "all_reduce", {0, 1}, kGrad);
  run.collective("dp", "broadcast", {0, 1}, kGrad, FlightRun::End::kPending);
  const json events = trace_of(run.dumps());
  EXPECT_EQ(events[0]["args"]["name"], "rank 0 (node-0)");
  const auto spans = events_of(events, "X");
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0]["name"], "all_reduce #1");
  EXPECT_EQ(spans[0]["ts"], 0);
  EXPECT_EQ(spans[0]["dur"], 500);
  EXPECT_EQ(spans[0]["args"]["inputs"], "Float[1024, 8]");
  EXPECT_EQ(spans[3]["name"], "broadcast #2 (pending)");
  EXPECT_EQ(spans[3]["pid"], 1);
  EXPECT_EQ(spans[3]["dur"], 30e6) << "until the dump";
  EXPECT_EQ(events_of(events, "s").size(), 2U);
  EXPECT_EQ(events_of(events, "f").size(), 2U);
  EXPECT_EQ(events_of(events, "i")[1]["name"], "dump: SIGUSR1");
}

TEST(FlightTrace, OperationsAtOnceHaveRowsOfTheirOwn) {
  FlightRun run(1);
  run.add_group("dp", {0});
  for (int i = 0; i < 3; ++i)
    run.collective("dp", "all_reduce", {0}, kGrad, FlightRun::End::kPending);
  run.collective("dp", "barrier", {0}, kGrad);
  std::vector<std::string> names;
  for (const json& event : trace_of(run.dumps())) {
    if (event["name"] == "thread_name") names.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"dp", "dp (2)", "dp (3)", "dp (4)"}));
}

TEST(FlightTrace, ArrowsFollowTime) {
  FlightRun run(3);
  run.add_group("dp", {0, 1, 2});
  for (const int64_t rank : {2, 0, 1}) run.collective("dp", "all_reduce", {rank}, kGrad);
  const json events = trace_of(run.dumps());
  EXPECT_EQ(events_of(events, "s")[0]["pid"], 2);
  EXPECT_EQ(events_of(events, "t")[0]["pid"], 0);
  EXPECT_EQ(events_of(events, "f")[0]["pid"], 1);
}

TEST(FlightTrace, TimesThatContradictEachOtherDoNoHarm) {
  FlightRun run(1);
  run.add_group("dp", {0});
  run.collective("dp", "all_reduce", {0}, kGrad);
  run.collective("dp", "all_reduce", {0}, kGrad, FlightRun::End::kPending);
  std::vector<FlightDump> dumps = run.dumps();
  dumps[0].created_ns = 0;
  dumps[0].entries[0].time_created_ns = INT64_MAX;
  dumps[0].entries[0].time_completed_ns = 5;
  EXPECT_EQ(events_of(trace_of(dumps), "X").size(), 2U);
}

}  // namespace
}  // namespace tessera
