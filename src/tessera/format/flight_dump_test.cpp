#include "tessera/format/flight_dump.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using nlohmann::json;

FlightDump example() {
  FlightDump dump{.rank = {1}, .world_size = 4, .host = "node-a", .pid = 4711, .job = "job-7"};
  dump.restart = 2;
  dump.reason = "error: all_reduce #17";
  dump.created_ns = 1'700'000'031'000'000'000;
  dump.groups = {{.id = 0,
                  .name = "world/compute",
                  .desc = "world",
                  .ranks = to_ranks({0, 1, 2, 3}),
                  .last_enqueued = 1,
                  .last_started = 1,
                  .last_completed = 1},
                 {.id = 3, .name = "pp/p2p", .desc = "pp", .ranks = to_ranks({3, 1})}};
  dump.entries = {{.record_id = 8,
                   .group_id = 0,
                   .collective_seq_id = 1,
                   .op_id = 1,
                   .profiling_name = "gloo:all_gather",
                   .inputs = {{{2, 3}, "Float"}},
                   .outputs = {{{8, 3}, "Float"}},
                   .state = FlightState::kCompleted,
                   .retired = true,
                   .timeout_ms = 60'000,
                   .time_created_ns = 1'700'000'000'000'000'001,
                   .time_started_ns = 1'700'000'000'000'000'002,
                   .time_completed_ns = 1'700'000'000'000'000'003,
                   .duration_ms = 0.25},
                  {.record_id = 9,
                   .group_id = 3,
                   .p2p_seq_id = 1,
                   .op_id = 1,
                   .profiling_name = "gloo:send 1->0",
                   .inputs = {{{}, "Long"}},
                   .is_p2p = true,
                   .time_created_ns = 1'700'000'000'000'000'004}};
  return dump;
}

TEST(FlightDump, HasPyTorchsNames) {
  const json written = json::parse(to_json(example()));
  EXPECT_EQ(written["version"], "2.10");
  EXPECT_EQ(written["pg_config"]["pp/p2p"],
            json::parse(R"({"name": "pp/p2p", "desc": "pp", "ranks": "[3, 1]", "pg_id": 3})"));
  EXPECT_EQ(written["pg_status"]["0"]["last_enqueued_collective"], 1);
  const json& entry = written["entries"][0];
  EXPECT_EQ(entry["process_group"], json::parse(R"(["world/compute", "world"])"));
  EXPECT_EQ(entry["input_sizes"], json::parse("[[2, 3]]"));
  EXPECT_EQ(entry["output_dtypes"], json::parse(R"(["Float"])"));
  EXPECT_EQ(entry["state"], "completed");
  EXPECT_EQ(entry["time_discovered_completed_ns"], 1'700'000'000'000'000'003);
  EXPECT_EQ(entry["frames"], json::array());
  EXPECT_EQ(written["entries"][1]["duration_ms"], nullptr);
}

TEST(FlightDump, TextThatIsNoUtf8IsMarked) {
  FlightDump dump = example();
  dump.host = "node\xff";
  EXPECT_EQ(json::parse(to_json(dump))["host"], "node\xEF\xBF\xBD");
}

TEST(FlightDump, EntriesAndGroupsBelongTogether) {
  FlightDump lost = example();
  lost.entries[0].group_id = 7;
  EXPECT_THROW(to_json(lost), InternalError);
  FlightDump twice = example();
  twice.groups[1].name = "world/compute";
  EXPECT_THROW(to_json(twice), InternalError);
}

}  // namespace
}  // namespace tessera
