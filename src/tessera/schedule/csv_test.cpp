#include "tessera/schedule/csv.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/lower.h"
#include "tests/testkit/schedules.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

std::string refusal(std::string_view text, const CsvOptions& options = {}) {
  return testkit::message_of<DataError>([&] { parse_schedule_csv(text, "t.csv", options); });
}

TEST(ScheduleCsv, ReadsWhatItWrites) {
  const Schedule schedule = parse_schedule_csv("0F0,,0B0\n,1F0,1B0\n", "t.csv");
  EXPECT_EQ(schedule.to_string(), "0F0 . 0B0\n. 1F0 1B0\n");
  EXPECT_EQ(to_csv(schedule, CsvFormat::kComputeOnly), "0F0,,0B0\r\n,1F0,1B0\r\n");
  EXPECT_EQ(parse_schedule_csv("0F0,,0B0\r\n,1F0,1B0", "t.csv"), schedule);
}

TEST(ScheduleCsv, QuotesBatches) {
  const Schedule schedule =
      lower_in_step(generate({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 2}), true);
  const std::string text = to_csv(schedule, CsvFormat::kComms);
  EXPECT_NE(text.find(",\"{0SEND_F1,0RECV_B0}\","), std::string::npos) << text;
  EXPECT_EQ(parse_schedule_csv(text, "1F1B", {.format = CsvFormat::kComms}), schedule);
}

TEST(ScheduleCsv, RefusalsNameRowColumnAndRule) {
  EXPECT_EQ(refusal("0F0,0B0\n1F0,1X0\n"),
            "t.csv: row 1, column 1: '1X0' is not an action: no type is called 'X' (types: F B I W "
            "SEND_F RECV_F SEND_B RECV_B UNSHARD RESHARD REDUCE_GRAD)");
  EXPECT_EQ(refusal("0F0,0SEND_F0,0B0\n1F0,1B0\n"),
            "t.csv: row 0, column 1: 0SEND_F0 is not a compute action; read the table with "
            "CsvFormat::kComms");
  EXPECT_EQ(refusal("0F0,,0B0\n", {.format = CsvFormat::kComms}),
            "t.csv: row 0, column 1: an empty cell; a table with communication is executed as it "
            "stands, without idle slots");
  EXPECT_EQ(refusal("0F0,\"0B0\n"), "t.csv: row 0, column 1: its quotation mark is never closed");
  EXPECT_EQ(refusal("0F0,\"0B0\"x\n"),
            "t.csv: row 0, column 1: text follows its closing quotation mark");
  EXPECT_EQ(refusal(""), "t.csv is empty; a table has one line per rank");
  EXPECT_EQ(refusal("0F0,0B0\n\n"), "t.csv: row 1 computes no stage; every rank needs one");
  EXPECT_EQ(refusal("0F0,0B0\n0F0,0B0\n"),
            "t.csv: row 1, column 0: 0F0 computes stage 0, which rank 0 computes, too; a stage "
            "must lie on one rank");
  EXPECT_EQ(refusal("0F0,0B0\n", {.shape = ScheduleShape{.pp = 2}}),
            "t.csv: the table has 1 rows for 2 ranks; every rank needs one row");
}

TEST(ScheduleCsv, WritesOnlyWhatTheFormatHolds) {
  const Schedule compute = testkit::table({"0F0 . 0B0"});
  EXPECT_EQ(testkit::message_of<ConfigError>([&] { to_csv(compute, CsvFormat::kComms); }),
            "row 0, column 1: an idle slot; a table with communication has none, lower it first");
  EXPECT_THROW(to_csv(lower(compute), CsvFormat::kComputeOnly), ConfigError);
}

}  // namespace
}  // namespace tessera
