// Steps that `tessera train` records, and what shows them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tessera/base/text.h"
#include "tessera/format/unit_record.h"
#include "tests/e2e/train_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

// In the order of their forward passes.
std::vector<std::string> unit_names(const UnitRecord& record) {
  std::vector<std::string> names;
  for (const UnitEvent& event : record.events) {
    if (event.action == UnitAction::kForward) names.push_back(event.unit);
  }
  return names;
}

std::vector<TimeSpan> times_of(const UnitRecord& record, const std::string& unit,
                               UnitAction action) {
  std::vector<TimeSpan> times;
  for (const UnitEvent& event : record.events) {
    if (event.unit == unit && event.action == action) times.push_back(event.time);
  }
  return times;
}

// Gathered, computed and freed; no backward pass reads its parameters.
void expect_life_of_embedding(const UnitRecord& record, const std::string& unit) {
  using enum UnitAction;
  for (const UnitAction action : {kGather, kHeld, kForward, kBackward, kReduce}) {
    EXPECT_EQ(times_of(record, unit, action).size(), 1U) << unit;
  }
}

// Gathered, computed, freed, gathered again, computed, freed and reduced, in this order.
void expect_whole_life(const UnitRecord& record, const std::string& unit) {
  using enum UnitAction;
  const auto gathers = times_of(record, unit, kGather);
  const auto held = times_of(record, unit, kHeld);
  const auto forward = times_of(record, unit, kForward);
  const auto backward = times_of(record, unit, kBackward);
  const auto reduce = times_of(record, unit, kReduce);
  ASSERT_EQ(gathers.size(), 2U) << unit;
  ASSERT_EQ(held.size(), 2U) << unit;
  ASSERT_EQ(forward.size(), 1U) << unit;
  ASSERT_EQ(backward.size(), 1U) << unit;
  ASSERT_EQ(reduce.size(), 1U) << unit;
  const std::vector<double> order{
      held[0].start,   gathers[0].start, gathers[0].end,   forward[0].start, forward[0].end,
      held[0].end,     held[1].start,    gathers[1].start, gathers[1].end,   backward[0].start,
      backward[0].end, held[1].end,      reduce[0].start,  reduce[0].end,    record.seconds};
  EXPECT_TRUE(std::ranges::is_sorted(order)) << unit << ": " << join(order, " ");
}

// The next unit is gathered while this one computes, in both directions.
void expect_prefetch(const UnitRecord& record, const std::vector<std::string>& units) {
  using enum UnitAction;
  for (size_t i = 0; i + 1 < units.size(); ++i) {
    EXPECT_LT(times_of(record, units[i + 1], kGather)[0].start,
              times_of(record, units[i], kForward)[0].end)
        << units[i];
    if (i == 0) continue;  // The embedding.
    EXPECT_LT(times_of(record, units[i], kGather)[1].start,
              times_of(record, units[i + 1], kBackward)[0].end)
        << units[i];
  }
}

TEST_F(Train, RecordsStepsOfAPipelineAndShowsThem) {
  const std::string way =
      " --dp 2 --pp 2 --parallel.nproc=4 --microbatches 2 --run.record_every=10";
  ASSERT_EQ(tessera(fixed(way + " --run.save=true")).code, 0);
  for (const char* const file : {"step-9.rank-0", "step-9.rank-1", "step-19.rank-0"}) {
    EXPECT_TRUE(fs::exists(concat(run_, "/pipeline/", file, ".json"))) << file;
  }
  const std::string report = text_of(run_ + "/report.html");
  EXPECT_NE(report.find("Step 19 as it ran, and simulated"), std::string::npos);
  EXPECT_NE(report.find(", measured"), std::string::npos);
  EXPECT_NE(report.find("dp_replicate"), std::string::npos);
  EXPECT_EQ(tessera(" schedule --from-trace " + run_).code, 0);
  EXPECT_EQ(tessera(" inspect " + run_ + "/model").code, 0);
  ASSERT_EQ(tessera(fixed("--overwrite")).code, 0);
  EXPECT_FALSE(fs::exists(run_ + "/pipeline")) << "of the former run";
}

TEST_F(Train, RecordsStepsOfShardedUnitsAndShowsThem) {
  const std::string way =
      " --dp 2 --dp-type fsdp --parallel.nproc=2 --parallel.reshard=always --run.record_every=10";
  ASSERT_EQ(tessera(fixed(way)).code, 0);
  EXPECT_FALSE(fs::exists(run_ + "/pipeline"));
  EXPECT_EQ(recorded_unit_steps(run_), (std::vector<int64_t>{9, 19}));
  const std::vector<UnitRecord> ranks = read_unit_records(run_, 19);
  ASSERT_EQ(ranks.size(), 2U);
  for (const UnitRecord& record : ranks) {
    const auto units = unit_names(record);
    EXPECT_EQ(units.size(), 4U) << "embedding, two layers, head";
    expect_life_of_embedding(record, units.at(0));
    for (size_t i = 1; i < units.size(); ++i) expect_whole_life(record, units[i]);
    expect_prefetch(record, units);
  }
  const std::string drawn = folder_.path("units.svg");
  const Finished shown =
      tessera(concat(" schedule --from-trace ", run_, " --units --rank 1 --svg ", drawn));
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("rank 1: communication in flight for "), std::string::npos) << shown.out;
  EXPECT_NE(text_of(drawn).find("Units of rank 1 in step 19"), std::string::npos);
  EXPECT_NE(text_of(run_ + "/report.html").find("The units in step 19"), std::string::npos);
  ASSERT_EQ(tessera(fixed("--overwrite")).code, 0);
  EXPECT_FALSE(fs::exists(run_ + "/units")) << "of the former run";
}

}  // namespace
}  // namespace tessera
