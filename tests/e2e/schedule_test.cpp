// `tessera schedule` as a user runs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/text.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/trace.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

class ScheduleVerb : public testing::Test {
 protected:
  Finished schedule(const std::string& arguments) const {
    return testkit::run("cd " + folder_.path() + " && " TESSERA_PROGRAM " schedule " + arguments);
  }
  std::string said(const std::string& arguments) const {
    const Finished finished = schedule(arguments);
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    return finished.out;
  }
  json answer(const std::string& arguments) const {
    return json::parse(said("--json " + arguments));
  }

  std::string file(const std::string& name) const {
    std::ifstream stream(folder_.path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(const std::string& name, const std::string& text) const { folder_.file(name, text); }

  const testkit::TemporaryFolder folder_;
};

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST_F(ScheduleVerb, WithoutArgumentsShowsTheExample) {
  const std::string text = said("");
  expect_in(text, "1F1B: 4 ranks, 4 stages, 8 microbatches");
  expect_in(text, "makespan 33, bubble 27.3 %, peak 4 activations");
  expect_in(text, "verified: complete, in order, no deadlock if a send waits for its receive");
  expect_in(text, "This is an example.");
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "no colours where no terminal is";
}

TEST_F(ScheduleVerb, JsonHasItsDocumentedForm) {
  const json got = answer("--kind 1F1B --pp 4 --microbatches 8");
  EXPECT_EQ(got["kind"], "1F1B");
  EXPECT_EQ(got["pp"], 4);
  EXPECT_EQ(got["stages_per_rank"], 1);
  EXPECT_EQ(got["microbatches"], 8);
  EXPECT_EQ(got["makespan"], 33);
  ASSERT_EQ(got["ranks"].size(), 4U);
  const json& rank = got["ranks"][1];
  EXPECT_EQ(rank["busy"], 24);
  EXPECT_EQ(rank["bubble"], 9);
  EXPECT_EQ(rank["gap"], 6);
  EXPECT_EQ(rank["peak_activations"], 3);
  EXPECT_EQ(rank["actions"].size(), 16U);
  EXPECT_EQ(rank["actions"][0], json::parse(R"({"action": "1F0", "start": 1.0, "end": 2.0})"));
}

TEST_F(ScheduleVerb, EveryKindInAnyCase) {
  for (const char* kind :
       {"gpipe", "1f1b", "interleaved1f1b", "Interleaved", "loopedBFS", "InterleavedZeroBubble",
        "zbvzerobubble", "ZBV", "dualpipev", "zbh1", "ZBH2", "vhalf", "VMIN", "Auto"}) {
    const json got = answer(concat("--kind ", kind, " --pp 4 --microbatches 8"));
    for (const json& rank : got["ranks"]) {
      EXPECT_GT(rank["busy"], 0);
      EXPECT_NEAR(got["makespan"].get<double>(),
                  rank["busy"].get<double>() + rank["bubble"].get<double>(), 1e-9)
          << kind;
    }
  }
  EXPECT_EQ(answer("--kind zbv --pp 4 --microbatches 8")["stages_per_rank"], 2);
  EXPECT_EQ(
      answer("--kind interleaved --stages-per-rank 3 --pp 2 --microbatches 4")["stages_per_rank"],
      3);
}

TEST_F(ScheduleVerb, SearchedKindsSayHowFarTheyGot) {
  const std::string text = said("--kind zbh2 --pp 4 --microbatches 12");
  expect_in(text, "ZBH2, found by search: better than InterleavedZeroBubble; longest span 36");
}

TEST_F(ScheduleVerb, TimesOfStagesAndMessages) {
  EXPECT_EQ(answer("--kind gpipe --pp 1 --microbatches 1 --f 2 --i 3 --w 5")["makespan"], 10);
  EXPECT_EQ(answer("--kind gpipe --pp 2 --microbatches 1 --comm 0.5")["makespan"], 7);
  EXPECT_EQ(answer("--kind gpipe --pp 2 --microbatches 1 --f 1,4")["makespan"], 9);
  EXPECT_EQ(answer("--kind interleaved --pp 1 --microbatches 1 --same-work")["makespan"], 3);
}

TEST_F(ScheduleVerb, MemoryLimits) {
  EXPECT_EQ(answer("--kind 1f1b --pp 4 --microbatches 8 --memory-limit 4")["kind"], "1F1B");
  const Finished finished = schedule("--kind gpipe --pp 4 --microbatches 8 --memory-limit 4");
  EXPECT_EQ(finished.code, 2);
  expect_in(finished.err, "GPipe holds 8 activations on a rank, more than the memory limit 4");
  for (const json& rank : answer("--kind auto --pp 4 --microbatches 8 --memory-limit 5")["ranks"]) {
    EXPECT_LE(rank["peak_activations"], 5);
  }
}

TEST_F(ScheduleVerb, ComparesKindsOnOneAxis) {
  const std::string text = said("--compare gpipe,1f1b,zbv --pp 4 --microbatches 8");
  expect_in(text,
            "schedule       stages per rank  makespan  bubble  peak activations\n"
            "GPipe                        1        33  27.3 %                 8\n"
            "1F1B                         1        33  27.3 %                 4\n"
            "ZBVZeroBubble                2        51   5.9 %                 8\n");
  expect_in(text, "ranks with more stages do more work; --same-work evens it");
  expect_in(said("--compare 1f1b,interleaved,zbv --pp 4 --microbatches 8 --same-work"),
            "Peaks in activations of all layers of a rank: 1F1B 4, Interleaved1F1B 5.5, "
            "ZBVZeroBubble 4\n");
  const json list = answer("--kind 1f1b --compare gpipe,1F1B --pp 4 --microbatches 8");
  ASSERT_EQ(list.size(), 2U) << "each kind once";
  EXPECT_EQ(list[0]["kind"], "1F1B");
  EXPECT_EQ(list[1]["kind"], "GPipe");
}

TEST_F(ScheduleVerb, WritesPicturePageTraceAndTable) {
  const std::string text = said(
      "--kind zbv --pp 4 --microbatches 8 --svg a.svg --html a.html --trace a.json --csv a.csv");
  for (const char* line : {"picture: a.svg\n", "page: a.html\n",
                           "trace (ui.perfetto.dev opens it): a.json\n", "table: a.csv\n"}) {
    expect_in(text, line);
  }
  EXPECT_TRUE(file("a.svg").starts_with("<svg "));
  EXPECT_TRUE(file("a.html").starts_with("<!doctype html>"));
  EXPECT_GT(testkit::checked_trace(file("a.json")).size(), 192U);
  EXPECT_TRUE(file("a.csv").starts_with("0F0,0F1,"));
}

TEST_F(ScheduleVerb, AMinusIsStdout) {
  EXPECT_TRUE(said("--svg -").starts_with("<svg "));
  EXPECT_TRUE(said("--html -").starts_with("<!doctype html>"));
  EXPECT_TRUE(said("--csv -").starts_with("0F0,0F1,"));
  testkit::checked_trace(said("--compare gpipe,1f1b --pp 2 --microbatches 2 --trace -"));
}

TEST_F(ScheduleVerb, ReadsItsOwnTables) {
  for (const char* kind : {"1f1b", "interleaved", "zbv", "dualpipev"}) {
    const json made = answer(concat("--kind ", kind, " --pp 4 --microbatches 8"));
    said(concat("--kind ", kind, " --pp 4 --microbatches 8 --csv own.csv"));
    const json read = answer("--csv-in own.csv");
    EXPECT_EQ(read["kind"], "own.csv");
    EXPECT_EQ(read["ranks"], made["ranks"]) << kind;
    said("--csv-in own.csv --csv again.csv");
    EXPECT_EQ(file("again.csv"), file("own.csv"));
  }
  const json list = answer("--csv-in own.csv --compare 1f1b");
  EXPECT_EQ(list[1]["microbatches"], 8) << "the table's sizes hold for all";
}

TEST_F(ScheduleVerb, TablesWithMessagesAreReadAsSuch) {
  write("comms.csv", "0F0,0SEND_F0,0RECV_B0,0B0\r\n1RECV_F0,1F0,1B0,1SEND_B0\r\n");
  const std::string text = said("--csv-in comms.csv");
  expect_in(text, "written in the table");
  expect_in(text, "makespan 6");
}

TEST_F(ScheduleVerb, PostedSendsAreSaid) {
  // Rank 0 sends twice before it receives: no end where a send waits for its receive.
  write("crossed.csv",
        "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\r\n");
  expect_in(said("--csv-in crossed.csv"), "sends are posted");
}

TEST_F(ScheduleVerb, LargeSchedulesAreSummedUp) {
  const std::string text = said("--kind 1f1b --pp 256 --microbatches 512");
  expect_in(text, "(too many ranks or actions for a timeline of 120 characters)");
  expect_in(text, "peak activations of a rank: 1 to 256");
}

TEST_F(ScheduleVerb, ColoursOnDemand) {
  expect_in(said("--color always"), "\x1b[38;5;16;48;5;");
}

TEST_F(ScheduleVerb, BadInputNamesTheValueTheRuleAndTheFix) {
  struct Refusal {
    const char* arguments;
    int code;
    const char* message;
  };
  write("empty.csv", "");
  write("junk.csv", "0F0,0B0\r\n1F0,hello\r\n");
  write("missing.csv", "0F0,0F1,0B0\r\n");
  write("deadlock.csv", "0B0,0F0\r\n");
  const std::vector<Refusal> refusals{
      {"--kind 1f1 --pp 4 --microbatches 8", 2, "did you mean '1f1b'?"},
      {"--kind 1f1b --pp 4", 2, "--microbatches is missing"},
      {"--microbatches 4", 2, "--pp is missing"},
      {"--kind foo", 2, "no schedule is called 'foo'"},
      {"--compare 1f1b,foo", 2, "no schedule is called 'foo'"},
      {"--kind 1f1b --pp 8 --microbatches 4", 2, "raise microbatches to 8 or choose GPipe"},
      {"--kind 1f1b --pp 0 --microbatches 4", 2, "pp is 0, but must be at least 1"},
      {"--kind zbh1 --pp -3 --microbatches 4", 2, "pp is -3, but must be at least 1"},
      {"--kind 1f1b --pp 2 --microbatches 4 --stages-per-rank 2", 2, "one stage per rank, not 2"},
      {"--kind zbv --pp 2 --microbatches 4 --stages-per-rank 3", 2,
       "exactly 2 stages per rank, not 3"},
      {"--kind interleaved --pp 2 --microbatches 5", 2, "nearest are 4 and 6"},
      {"--pp four --microbatches 4", 2, "--pp 'four' is not a whole number"},
      {"--f -1", 2, "--f '-1' is not a time; write numbers from 0 to 1,000,000"},
      {"--f nan", 2, "--f 'nan' is not a time"},
      {"--w 1,,2", 2, "--w '' is not a time"},
      {"--comm 1e7", 2, "--comm '1e7' is not a time"},
      {"--f 0 --i 0 --w 0", 2, "all 0, so that nothing takes time"},
      {"--kind gpipe --pp 4 --microbatches 4 --f 1,2,3", 2, "3 values for 4 stages"},
      {"--kind auto --pp 4 --microbatches 8 --memory-limit 0", 2, "raise the limit to at least 1"},
      {"--compare 1f1b,zvb --pp 4 --microbatches 8", 2, "no schedule is called 'zvb'"},
      {"--kind gpipe --pp 2048 --microbatches 2049", 2, "too large to generate"},
      {"--kind auto --pp 1024 --microbatches 1024", 2, "too large to search"},
      {"--kind gpipe --pp 5000 --microbatches 1", 2,
       "a table of 5000 ranks (--pp) and 5000 stages is too large to generate"},
      {"--kind auto --pp 100000 --microbatches 1", 2, "100000 ranks (--pp)"},
      {"--kind interleaved --pp 4 --microbatches 8 --stages-per-rank 0", 2,
       "--stages-per-rank 0 is not positive"},
      {"--kind gpipe --pp 9223372036854775807 --microbatches 9223372036854775807", 2,
       "overflows 64 bits"},
      {"--kind gpipe --pp 64 --microbatches 512 --svg x.svg", 2,
       "too many for --svg, which shows up to 20,000"},
      {"--kind gpipe --pp 64 --microbatches 512 --html x.html", 2, "too many for --html"},
      {"--kind gpipe --pp 1024 --microbatches 1024 --trace x.json", 2, "too many for --trace"},
      {"--svg x --html x", 2, "two results go to x"},
      {"--json --svg -", 2, "two results go to stdout"},
      {"--compare 1f1b,gpipe --pp 4 --microbatches 8 --csv x.csv", 2, "--csv writes one table"},
      {"--svg /no/such/folder/x.svg", 1, "cannot write /no/such/folder/x.svg"},
      {"--csv-in nothing.csv", 1, "cannot open nothing.csv"},
      {"--csv-in /tmp", 2, "/tmp is a folder"},
      {"--csv-in empty.csv", 1, "empty.csv is empty; a table has one line per rank"},
      {"--csv-in junk.csv", 1, "junk.csv: row 1, column 1"},
      {"--csv-in missing.csv", 1, "missing.csv: row 0: 0B1 is missing"},
      {"--csv-in deadlock.csv", 1, "deadlock.csv: row 0, column 0: 0B0: its forward must come"},
      {"--csv-in junk.csv --kind zbv", 2, "--kind zbv and --csv-in are two schedules"},
      {"--kidn 1f1b", 2, "did you mean '--kind'?"},
      {"gpipe", 2, "unexpected argument 'gpipe'"},
  };
  for (const Refusal& refusal : refusals) {
    const Finished finished = schedule(refusal.arguments);
    EXPECT_EQ(finished.code, refusal.code) << refusal.arguments << "\n" << finished.err;
    EXPECT_EQ(finished.out, "") << refusal.arguments;
    EXPECT_NE(finished.err.find(refusal.message), std::string::npos) << refusal.arguments << "\n"
                                                                     << finished.err;
    EXPECT_FALSE(fs::exists(folder_.path("x.svg"))) << "a refusal leaves no file";
  }
}

TEST_F(ScheduleVerb, AFileNameNeedNotBeText) {
  write("a\xff.csv", "0F0,0B0\r\n");
  EXPECT_EQ(answer("--csv-in a\xff.csv")["kind"], "a\xef\xbf\xbd.csv");
  said("--csv-in a\xff.csv --html page.html --trace trace.json");
  EXPECT_NE(file("page.html").find("a\\\\xff.csv"), std::string::npos);
}

TEST_F(ScheduleVerb, ATableKeepsItsSizes) {
  write("own.csv", "0F0,0B0\r\n");
  const Finished finished = schedule("--csv-in own.csv --pp 2");
  EXPECT_EQ(finished.code, 2);
  expect_in(finished.err, "--pp 2 is not the table's 1; leave it out");
}

TEST_F(ScheduleVerb, OutputThatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(testkit::run(TESSERA_PROGRAM " schedule --json >/dev/full").code, 1);
}

}  // namespace
}  // namespace tessera
