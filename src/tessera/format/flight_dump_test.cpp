#include "tessera/format/flight_dump.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using nlohmann::json;

FlightDump example() {
  FlightDump dump{
      .rank = GlobalRank{1}, .world_size = 4, .host = "node-a", .pid = 4711, .job = "job-7"};
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

TEST(FlightDump, IsReadAsItWasWritten) {
  EXPECT_EQ(parse_flight_dump(to_json(example()), "here"), example());
  EXPECT_EQ(parse_flight_dump(to_json(FlightDump{}), "here"), FlightDump{});
}

std::string refusal(const std::string& text) {
  return testkit::message_of<DataError>([&] { parse_flight_dump(text, "r1.json"); });
}

struct Damage {
  const char* field;  // As a JSON pointer.
  const char* value;
  const char* message;
};

TEST(FlightDump, WrongFieldsAreNamed) {
  const std::vector<Damage> damages{
      {"/version", "\"3.0\"", "version is \"3.0\"; expected \"2.10\" or another \"2.\" version"},
      {"/rank", "4", "rank is 4; expected a whole number from 0 to 3"},
      {"/rank", "\"1\"", "rank is \"1\"; expected a whole number from 0 to 3"},
      {"/rank", "1.0", "rank is 1.0; expected a whole number"},
      {"/world_size", "99999999999999999999", "world_size is 1e+20; expected"},
      {"/world_size", "18446744073709551615", "world_size is 18446744073709551615; expected"},
      {"/host", "[]", "host is a list; expected text"},
      {"/entries", "{}", "entries is an object; expected a list"},
      {"/entries/1", "7", "entries[1] is 7; expected an object"},
      {"/entries/0/input_sizes/0/1", "-3",
       "entries[0].input_sizes[0][1] is -3; expected a whole number of at least 0"},
      {"/entries/0/input_dtypes", "[]", "expected one dtype per shape, of 1 shapes"},
      {"/entries/0/state", "\"done\"", "expected \"scheduled\", \"started\" or \"completed\""},
      {"/entries/0/retired", "0", "entries[0].retired is 0; expected true or false"},
      {"/entries/0/duration_ms", "-1", "entries[0].duration_ms is -1; expected a number"},
      {"/entries/1/record_id", "8", "entries[1].record_id is 8; expected more than"},
      {"/entries/0/pg_id", "5", "entries[0].pg_id is 5; expected the pg_id of a group"},
      {"/entries/0/process_group", "[\"world/compute\"]", "expected name and desc of the group"},
      {"/pg_config/pp~1p2p/pg_id", "0", "pg_config is an object; expected different pg_id"},
      {"/pg_config/pp~1p2p/name", "\"x\"", "expected the name under which the group is listed"},
      {"/pg_config/pp~1p2p/ranks", "\"[3, 1\"",
       "pg_config.pp/p2p.ranks is \"[3, 1\"; expected a list"},
      {"/pg_config/pp~1p2p/ranks", "\"[3, 3, 1]\"", "expected different ranks, among them 1"},
      {"/pg_config/pp~1p2p/ranks", "\"[3]\"", "expected different ranks, among them 1"},
      {"/pg_status/0", "{}", "pg_status.0 has no field 'last_enqueued_collective'"},
  };
  const json good = json::parse(to_json(example()));
  for (const auto& [field, value, message] : damages) {
    json bad = good;
    bad[json::json_pointer(field)] = json::parse(value);
    const std::string text = refusal(bad.dump());
    EXPECT_TRUE(text.starts_with("r1.json: ")) << text;
    EXPECT_NE(text.find(message), std::string::npos) << text << "\nlacks: " << message;
  }
}

TEST(FlightDump, EveryFieldIsAskedFor) {
  const json good = json::parse(to_json(example()));
  for (const auto& [key, value] : good.items()) {
    json bad = good;
    bad.erase(key);
    EXPECT_EQ(refusal(bad.dump()), concat("r1.json: the dump has no field '", key, "'"));
  }
  for (const auto& [key, value] : good["entries"][0].items()) {
    if (key == "frames") continue;
    json bad = good;
    bad["entries"][0].erase(key);
    EXPECT_EQ(refusal(bad.dump()), concat("r1.json: entries[0] has no field '", key, "'"));
  }
}

TEST(FlightDump, HostileTextIsRefused) {
  const std::string good = to_json(example());
  EXPECT_NE(refusal(good.substr(0, good.size() / 2)).find("broken JSON near byte"),
            std::string::npos);
  EXPECT_NE(refusal("").find("broken JSON"), std::string::npos);
  EXPECT_NE(refusal("\xff").find("broken JSON"), std::string::npos);
  EXPECT_NE(refusal("[]").find("the dump is a list; expected an object"), std::string::npos);
  EXPECT_NE(refusal(std::string(1'000'000, '[')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(refusal(std::string(kLargestFlightDump + 1, ' ')).find("larger than the 67,108,864"),
            std::string::npos);
}

TEST(FlightDump, TextThatIsNoUtf8IsMarked) {
  FlightDump dump = example();
  dump.host = "node\xff";
  EXPECT_EQ(json::parse(to_json(dump))["host"], "node\xEF\xBF\xBD");
}

TEST(FlightDump, TextsCannotSteerATerminal) {
  FlightDump dump = example();
  dump.reason = "error:\n\x1b[2J\xC2\x9B\x7F§ü";
  EXPECT_EQ(parse_flight_dump(to_json(dump), "here").reason, "error: \\x1b[2J\\xc2\\x9b\\x7f§ü");
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
