#include "tessera/format/unit_record.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using enum UnitAction;

// Two units: the gather of the second is in flight while the first computes.
UnitRecord some_units(int64_t step = 3, int64_t rank = 1) {
  return {.step = step,
          .rank = GlobalRank{rank},
          .seconds = 1,
          .events = {{"a", kGather, {0, 0.125}},
                     {"a", kWait, {0, 0.125}},
                     {"b", kGather, {0.125, 0.25}},
                     {"a", kForward, {0.125, 0.375}},
                     {"a", kHeld, {0.125, 0.375}},
                     {"b", kHeld, {0.25, 0.75}},
                     {"b", kForward, {0.375, 0.5}},
                     {"b", kBackward, {0.5, 0.75}},
                     {"b", kReduce, {0.75, 1}},
                     {"b", kWait, {0.875, 1}}}};
}

TEST(UnitRecord, SurvivesItsText) {
  UnitRecord record = some_units();
  record.events.push_back({"x", kReduce, {0.1, 0.30000000000000004}});
  EXPECT_EQ(parse_unit_record(to_json(record), "f"), record);
  const UnitRecord empty{.seconds = 0.5};
  EXPECT_EQ(parse_unit_record(to_json(empty), "f"), empty);
}

TEST(UnitRecord, HasALinePerEvent) {
  const UnitRecord record{.step = 12,
                          .rank = GlobalRank{3},
                          .seconds = 0.5,
                          .events = {{"model.layers.0", kGather, {0.125, 0.25}}}};
  EXPECT_EQ(
      to_json(record),
      "{\"version\":1,\"step\":12,\"rank\":3,\"seconds\":0.5,\n\"events\":[\n"
      "{\"unit\":\"model.layers.0\",\"action\":\"gather\",\"start\":0.125,\"end\":0.25}\n]}\n");
}

TEST(UnitRecord, WhatIsMalformedIsNamed) {
  const std::string good = to_json(some_units());
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& why) {
    std::string bad = good;
    ASSERT_NE(bad.find(from), std::string::npos) << from;
    bad.replace(bad.find(from), from.size(), to);
    const std::string message = message_of<DataError>([&] { parse_unit_record(bad, "f.json"); });
    EXPECT_EQ(message.find("f.json: "), 0U) << message;
    EXPECT_NE(message.find(why), std::string::npos) << message;
  };
  expect("\"version\":1", "\"version\":2", "version is 2");
  expect("\"step\":3", "\"step\":-1", "step is -1");
  expect("\"rank\":1", "\"rank\":-1", "rank is -1");
  expect("\"seconds\":1.0", "\"seconds\":0", "seconds is 0; expected at least a nanosecond");
  expect("\"seconds\":1.0", "\"seconds\":0.5",
         "events[5].end is 0.75; expected at most 0.5, the end of the step");
  expect("\"seconds\":1.0", "\"seconds\":1e300", "expected at most 4e+09 seconds");
  expect("\"action\":\"gather\"", "\"action\":\"collect\"",
         "events[0].action is \"collect\"; expected one of gather, held, forward, backward, "
         "reduce, wait, exchange, attend");
  expect("\"unit\":\"a\"", "\"unit\":1", "events[0].unit is 1");
  expect("\"end\":0.125", "\"end\":-1", "events[0].end is -1");
  expect("\"start\":0.125,\"end\":0.25", "\"start\":0.5,\"end\":0.25",
         "events[2].end is 0.25; expected at least its start, 0.5");
  expect("]}", "", "broken JSON");
}

TEST(UnitRun, StepsAreFoundByTheirFiles) {
  const testkit::TemporaryFolder run;
  for (const int64_t step : {12, 3}) {
    for (const int64_t rank : {10, 2}) write_unit_record(run.path(), some_units(step, rank));
  }
  run.file("units/notes.txt", "mine");
  EXPECT_EQ(recorded_unit_steps(run.path()), (std::vector<int64_t>{3, 12}));
  const std::vector<UnitRecord> records = read_unit_records(run.path(), 12);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0], some_units(12, 2)) << "by rank, not by the name of the file";
  EXPECT_EQ(message_of<ConfigError>([&] { read_unit_records(run.path(), 4); }),
            "step 4 was not recorded; choose from 3, 12");
}

TEST(UnitRun, AFolderWithoutRecords) {
  const testkit::TemporaryFolder run;
  EXPECT_NE(message_of<DataError>([&] {
              recorded_unit_steps(run.path());
            }).find("has no recorded step of units"),
            std::string::npos);
}

TEST(UnitRun, AFileThatHoldsAnotherRank) {
  const testkit::TemporaryFolder run;
  write_unit_record(run.path(), some_units(3, 1));
  run.file("units/step-3.rank-0.json", to_json(some_units(3, 1)));
  EXPECT_NE(message_of<DataError>([&] {
              read_unit_records(run.path(), 3);
            }).find("contains step 3 of rank 1, which contradicts its name"),
            std::string::npos);
}

TEST(CommunicationTimes, CountEachMomentOnce) {
  const CommunicationTimes times = communication_times(some_units());
  EXPECT_EQ(times.step, 1);
  EXPECT_EQ(times.in_flight, 0.5);
  EXPECT_EQ(times.waited, 0.25);
  EXPECT_EQ(to_string(times),
            "communication in flight for 500.0 ms of 1000.0 ms; compute waited for it "
            "250.0 ms (25.0 % of the step)");

  UnitRecord record = some_units();
  record.events.push_back({"c", kGather, {0.0625, 0.1875}});  // Beside two others.
  record.events.push_back({"c", kWait, {0.0625, 0.125}});
  EXPECT_EQ(communication_times(record).in_flight, 0.5);
  EXPECT_EQ(communication_times(record).waited, 0.25);
  record.events.push_back({"c", kReduce, {0.5, 0.625}});
  EXPECT_EQ(communication_times(record).in_flight, 0.625);
  record.events.push_back({"c", kExchange, {0.375, 0.5}});
  record.events.push_back({"c", kAttend, {0.25, 0.5}});
  EXPECT_EQ(communication_times(record).in_flight, 0.75);
}

TEST(CommunicationTimes, AStepWithoutCommunication) {
  const CommunicationTimes times = communication_times({.seconds = 0.5});
  EXPECT_EQ(times.in_flight, 0);
  EXPECT_EQ(times.waited_share(), 0);
}

}  // namespace
}  // namespace tessera
