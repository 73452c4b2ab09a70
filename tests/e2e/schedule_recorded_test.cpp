// `tessera schedule --from-trace` as a user runs it, on steps that were recorded in theory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/text.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/format/unit_record.h"
#include "tessera/schedule/choose.h"
#include "tests/testkit/jitter.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/trace.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;

// In seconds; so that all times are sums of powers of two, a millisecond is 1/1024 of one.
constexpr double kMs = 1.0 / 1024;
constexpr double kShown = 1000 * kMs;  // What the program calls it, in its milliseconds.

class RecordedVerb : public testing::Test {
 protected:
  // A step of which the simulation says what happened, in units of kMs.
  void record(const Schedule& schedule, const Simulation& simulation, int64_t step) const {
    for (int64_t rank = 0; rank < schedule.pp(); ++rank) {
      PipelineRecord record{schedule.name(), schedule.shape(), step, GroupRank{rank}, {}};
      for (size_t i = 0; i < schedule.row(GroupRank{rank}).size(); ++i) {
        const TimeSpan& span = simulation.spans[static_cast<size_t>(rank)][i];
        record.actions.push_back(
            {schedule.row(GroupRank{rank})[i], {1 + span.start * kMs, 1 + span.end * kMs}});
      }
      write_pipeline_record(run_.path(), record);
    }
  }

  void record(const std::string& kind, const Costs& costs, int64_t step = 12) const {
    const Schedule schedule =
        choose_schedule({.word = kind, .pp = 4, .microbatches = 8}).without_idle();
    record(schedule, simulate(schedule, costs), step);
  }

  Finished schedule(const std::string& arguments) const {
    return testkit::run("cd " + run_.path() + " && " TESSERA_PROGRAM " schedule " + arguments);
  }
  std::string said(const std::string& arguments) const {
    const Finished finished = schedule(arguments);
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    return finished.out;
  }
  json answer(const std::string& arguments = "") const {
    return json::parse(said("--from-trace . --json " + arguments));
  }
  std::string file(const std::string& name) const {
    std::ifstream stream(run_.path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const testkit::TemporaryFolder run_;
};

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST_F(RecordedVerb, FindsTheTimesThatTheStepHad) {
  record("zbv", {.forward = {1, 2, 1, 1, 1, 1, 1, 1.5},
                 .input_grad = {1.25},
                 .weight_grad = {0.5},
                 .message = {0.25}});
  const json got = answer();
  EXPECT_EQ(got["step"], 12);
  const auto in_ms = [](std::vector<double> times) {
    for (double& time : times) time *= kShown;
    return times;
  };
  EXPECT_EQ(got["costs"]["forward"], in_ms({1, 2, 1, 1, 1, 1, 1, 1.5}));
  EXPECT_EQ(got["costs"]["input_grad"], in_ms(std::vector<double>(8, 1.25)));
  EXPECT_EQ(got["costs"]["weight_grad"], in_ms(std::vector<double>(8, 0.5)));
  EXPECT_EQ(got["costs"]["message"][0], 0.25 * kShown);
  EXPECT_EQ(got["measured"]["kind"], "ZBVZeroBubble");
  EXPECT_EQ(got["measured"]["ranks"], got["simulated"]["ranks"]) << "nothing else happened in it";
}

TEST_F(RecordedVerb, SaysWhatAnotherScheduleWouldGain) {
  record("1f1b", {.message = {0.125}});
  const std::string text = said("--from-trace .");
  expect_in(text, "1F1B, measured: 4 ranks, 4 stages, 8 microbatches");
  expect_in(text, "1F1B, simulated: 4 ranks, 4 stages, 8 microbatches");
  expect_in(text, "step 12, measured and simulated with its own times:");
  expect_in(text, "half of each is taken as input gradient");
  expect_in(text, "1F1B (now)");
  expect_in(text, "less time than 1F1B,\nwith 1 x its activations; --csv FILE writes its table.");
  const json others = answer()["alternatives"];
  EXPECT_GE(others.size(), 10U);
  for (const json& other : others) {
    EXPECT_TRUE(other["kind"] != "GPipe" || other["memory"] == 2) << other;
    EXPECT_TRUE(other["kind"] != "auto" || other["time"] <= 1) << other;
  }
}

TEST_F(RecordedVerb, AJitteryStepTakesLongerThanItsSimulation) {
  const Schedule schedule = choose_schedule({.word = "1f1b", .pp = 4, .microbatches = 16});
  const Costs costs{.forward = {2}, .input_grad = {2}, .weight_grad = {2}, .message = {0.125}};
  record(schedule, testkit::JitteryRun(schedule, costs, 0.2).perform(), 0);
  const json got = answer();
  for (const double forward : got["costs"]["forward"]) {
    EXPECT_NEAR(forward / kShown, 2, 0.2);
  }
  EXPECT_GT(got["measured"]["makespan"], got["simulated"]["makespan"]);
  EXPECT_NEAR(
      got["measured"]["makespan"].get<double>() / got["simulated"]["makespan"].get<double>(), 1,
      0.1);
}

TEST_F(RecordedVerb, ChoosesTheStep) {
  record("1f1b", {}, 3);
  record("gpipe", {}, 12);
  EXPECT_EQ(answer()["measured"]["kind"], "GPipe") << "the last";
  EXPECT_EQ(answer("--step 3")["measured"]["kind"], "1F1B");
}

TEST_F(RecordedVerb, AMemoryLimitHoldsForAll) {
  record("1f1b", {});
  for (const json& other : answer("--memory-limit 3")["alternatives"]) {
    EXPECT_LE(other["memory"], 0.75) << other;
  }
  EXPECT_GT(answer("--memory-limit 8")["alternatives"].size(),
            answer("--memory-limit 3")["alternatives"].size());
}

TEST_F(RecordedVerb, PicturesShowBoth) {
  record("zbv", {.message = {0.25}});
  const std::string text =
      said("--from-trace . --svg a.svg --html a.html --trace a.json --csv a.csv");
  for (const char* line : {"picture: a.svg\n", "page: a.html\n", "table: a.csv\n"}) {
    expect_in(text, line);
  }
  expect_in(file("a.svg"), "Step 12 of .");
  expect_in(file("a.svg"), "ZBVZeroBubble, measured");
  expect_in(file("a.svg"), "ZBVZeroBubble, simulated");
  expect_in(file("a.html"), "ZBVZeroBubble, measured");
  EXPECT_GT(testkit::checked_trace(file("a.json")).size(), 2U * 192);
}

TEST_F(RecordedVerb, TheTableItWritesIsTheOneItRecommends) {
  record("1f1b", {.message = {0.125}});
  const json others = answer()["alternatives"];
  const auto best = std::ranges::find_if(others, [](const json& o) { return o["memory"] <= 1; });
  ASSERT_NE(best, others.end());
  said("--from-trace . --csv best.csv");
  const json table = json::parse(said("--json --csv-in best.csv"));
  EXPECT_EQ(table["stages_per_rank"], (*best)["stages_per_rank"]);
  EXPECT_EQ(table["microbatches"], 8);
}

// Compute of the second rank waits for a quarter of the step.
UnitRecord record_of_rank(int64_t rank, int64_t step = 7) {
  using enum UnitAction;
  return {.step = step,
          .rank = GlobalRank{rank},
          .seconds = 0.125,
          .events = {{"head", kGather, {0, 0.0625}},
                     {"head", kWait, {0, rank == 0 ? 0 : 0.03125}},
                     {"head", kHeld, {0.0625, 0.09375}},
                     {"head", kForward, {0.0625, 0.09375}}}};
}

TEST_F(RecordedVerb, ShowsTheUnitsOfARank) {
  for (const int64_t rank : {0, 1}) write_unit_record(run_.path(), record_of_rank(rank));
  write_unit_record(run_.path(), record_of_rank(0, 3));
  const std::string text =
      said("--from-trace . --units --rank 1 --color never --svg a.svg --trace a.json");
  expect_in(text, "units of rank 1 in step 7\n");
  expect_in(text,
            "communication of rank 1: communication in flight for 62.5 ms of 125.0 ms; "
            "compute waited for it 31.2 ms (25.0 % of the step)\n");
  expect_in(text, "   0    125.0          62.5        0.0   0.0 %\n");
  expect_in(text, "   1    125.0          62.5       31.2  25.0 %\n");
  expect_in(text, "picture: a.svg\n");
  expect_in(file("a.svg"), "Units of rank 1 in step 7");
  EXPECT_EQ(testkit::checked_trace(file("a.json")).back()["pid"], 1) << "only that rank";
  expect_in(said("--from-trace . --units --step 3"), "units of rank 0 in step 3\n");
  const Finished other = schedule("--from-trace . --units --rank 2");
  EXPECT_EQ(other.code, 2);
  expect_in(other.err, "--rank 2 was not recorded; choose from 0, 1");
}

TEST_F(RecordedVerb, PrintsTheUnitsAsJson) {
  for (const int64_t rank : {0, 1}) write_unit_record(run_.path(), record_of_rank(rank));
  const json got = answer("--units");
  EXPECT_EQ(got["step"], 7);
  ASSERT_EQ(got["ranks"].size(), 2U);
  const json& rank = got["ranks"][1];
  EXPECT_EQ(rank["step_ms"], 125);
  EXPECT_EQ(rank["in_flight_ms"], 62.5);
  EXPECT_EQ(rank["waited_ms"], 31.25);
  EXPECT_EQ(rank["waited_share"], 0.25);
  EXPECT_EQ(rank["events"][0],
            (json{{"unit", "head"}, {"action", "gather"}, {"start", 0}, {"end", 62.5}}));
}

TEST_F(RecordedVerb, BadInputNamesTheValueTheRuleAndTheFix) {
  struct Refusal {
    const char* arguments;
    int code;
    const char* message;
  };
  record("1f1b", {});
  std::filesystem::create_directories(run_.path("broken/pipeline"));
  run_.file("broken/pipeline/step-1.rank-0.json", "{\"version\":1");
  const std::vector<Refusal> refusals{
      {"--from-trace . --kind zbv", 2, "--kind does not go with --from-trace"},
      {"--from-trace . --csv-in x.csv", 2, "--csv-in does not go with --from-trace"},
      {"--from-trace . --compare zbv", 2, "--compare does not go with --from-trace"},
      {"--from-trace . --pp 4", 2, "--pp does not go with --from-trace"},
      {"--from-trace . --f 2", 2, "--f, --i, --w or --comm does not go with --from-trace"},
      {"--from-trace . --same-work", 2, "--same-work does not go with --from-trace"},
      {"--from-trace . --step 4", 2, "step 4 was not recorded; choose from 12"},
      {"--step 4", 2, "--step 4 is a recorded one's; name its run with --from-trace"},
      {"--from-trace . --json --svg -", 2, "two results go to stdout"},
      {"--from-trace nowhere", 1, "nowhere has no recorded pipeline step"},
      {"--units", 2, "--units shows a recorded step; name its run with --from-trace"},
      {"--rank 1", 2, "--rank 1 selects whose units are shown; give --units as well"},
      {"--from-trace . --units --html x", 2, "--html does not go with --units"},
      {"--from-trace . --units --csv x", 2, "--csv does not go with --units"},
      {"--from-trace . --units --memory-limit 2", 2, "--memory-limit does not go with --units"},
      {"--from-trace . --units", 1, ". has no recorded step of units"},
      {"--from-trace broken", 1, "broken/pipeline/step-1.rank-0.json: broken JSON"},
  };
  for (const Refusal& refusal : refusals) {
    const Finished finished = schedule(refusal.arguments);
    EXPECT_EQ(finished.code, refusal.code) << refusal.arguments << "\n" << finished.err;
    EXPECT_EQ(finished.out, "") << refusal.arguments;
    expect_in(finished.err, refusal.message);
  }
}

}  // namespace
}  // namespace tessera
