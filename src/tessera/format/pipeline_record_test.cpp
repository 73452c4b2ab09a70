#include "tessera/format/pipeline_record.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/schedule/generate.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

// The records of ranks that run the simulation in real milliseconds, from second 5 on.
std::vector<PipelineRecord> records_of(const Schedule& schedule, const Simulation& simulation,
                                       int64_t step) {
  std::vector<PipelineRecord> records;
  for (int64_t rank = 0; rank < schedule.pp(); ++rank) {
    records.push_back({schedule.name(), schedule.shape(), step, GroupRank{rank}, {}});
    for (size_t i = 0; i < schedule.row(GroupRank{rank}).size(); ++i) {
      const TimeSpan& span = simulation.spans[static_cast<size_t>(rank)][i];
      records.back().actions.push_back(
          {schedule.row(GroupRank{rank})[i], {5 + span.start / 1e3, 5 + span.end / 1e3}});
    }
  }
  return records;
}

Schedule some_schedule() {
  return generate({.kind = ScheduleKind::kZBVZeroBubble, .pp = 2, .microbatches = 4})
      .without_idle();
}

std::vector<PipelineRecord> some_records(int64_t step = 3) {
  const Schedule schedule = some_schedule();
  return records_of(schedule, simulate(schedule, {.message = {0.5}}), step);
}

TEST(PipelineRecord, SurvivesItsText) {
  PipelineRecord record = some_records()[1];
  record.actions.push_back({parse_action("1SEND_F0"), {0.1, 0.30000000000000004}});
  record.actions.push_back({parse_action("(0F3;3B1)OVERLAP_F_B"), {7, 8}});
  EXPECT_EQ(parse_pipeline_record(to_json(record), "again"), record);
}

TEST(PipelineRecord, HasTheFormOfItsDocumentation) {
  const PipelineRecord record{"1F1B",
                              {.pp = 2, .num_stages = 2, .microbatches = 1},
                              7,
                              GroupRank{0},
                              {{parse_action("0F0"), {0.25, 0.5}}, {parse_action("0B0"), {1, 2}}}};
  EXPECT_EQ(to_json(record),
            "{\"version\":1,\"schedule\":\"1F1B\",\"pp\":2,\"stages\":2,\"microbatches\":1,"
            "\"step\":7,\"rank\":0,\n\"actions\":[\n"
            "{\"action\":\"0F0\",\"start\":0.25,\"end\":0.5},\n"
            "{\"action\":\"0B0\",\"start\":1.0,\"end\":2.0}\n]}\n");
}

std::string with(std::string_view old, std::string_view changed) {
  std::string text =
      to_json(PipelineRecord{"1F1B",
                             {.pp = 2, .num_stages = 2, .microbatches = 1},
                             7,
                             GroupRank{0},
                             {{parse_action("0F0"), {0.25, 0.5}}, {parse_action("0B0"), {1, 2}}}});
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), changed);
}

TEST(PipelineRecord, WhatIsWrongIsNamed) {
  const auto refusal = [](std::string_view old, std::string_view changed) {
    const std::string text = with(old, changed);
    return message_of<DataError>([&] { parse_pipeline_record(text, "f.json"); });
  };
  const auto expect = [&](std::string_view old, std::string_view changed, std::string_view words) {
    const std::string message = refusal(old, changed);
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with("f.json: ")) << message;
  };
  expect("\"version\":1", "\"version\":2", "version is 2; expected a whole number from 1 to 1");
  expect("\"rank\":0", "\"rank\":2", "rank is 2; expected a whole number from 0 to 1");
  expect("\"stages\":2", "\"stages\":1", "stages is 1; expected a whole number from 2");
  expect("\"microbatches\":1", "\"microbatches\":0", "microbatches is 0");
  expect("\"step\":7", "\"step\":-1", "step is -1");
  expect("0F0", "0X0", "actions[0].action is \"0X0\"; expected an action as text");
  expect("0F0", "", "actions[0].action is \"\"; expected an action");
  expect("\"end\":0.5", "\"end\":0.2", "actions[0].end is 0.2; expected at least its start, 0.25");
  expect("\"start\":1.0", "\"start\":0.4",
         "actions[1].start is 0.4; expected at least 0.5, when the rank was free");
  expect("\"start\":0.25", "\"start\":-1",
         "actions[0].start is -1; expected a number of at least 0");
  expect("2.0", "1e300", "expected at most 4e+09 seconds");
  expect("\"pp\":2,", "", "has no field 'pp'");
  expect("]}", "", "broken JSON");
}

TEST(PipelineRecord, MessagesMayOverlapWhatComputes) {
  PipelineRecord record{"x", {}, 0, GroupRank{0}, {{parse_action("0F0"), {1, 2}}}};
  record.actions.push_back({parse_action("0RECV_B0"), {1.5, 1.75}});
  EXPECT_EQ(parse_pipeline_record(to_json(record), "f"), record);
}

TEST(RecordedStep, IsTheSimulationThatWasRecorded) {
  const Schedule schedule = some_schedule();
  const Simulation simulation = simulate(schedule, {.message = {0.5}});
  const RecordedStep step = join_records(records_of(schedule, simulation, 3));
  EXPECT_EQ(step.step, 3);
  EXPECT_EQ(step.schedule, schedule);
  EXPECT_NEAR(step.simulation.makespan, simulation.makespan, 1e-9);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_NEAR(step.simulation.ranks[rank].busy, simulation.ranks[rank].busy, 1e-9);
    EXPECT_EQ(step.simulation.ranks[rank].peak_activations,
              simulation.ranks[rank].peak_activations);
    for (size_t i = 0; i < simulation.spans[rank].size(); ++i) {
      EXPECT_NEAR(step.simulation.spans[rank][i].start, simulation.spans[rank][i].start, 1e-9);
    }
  }
}

TEST(RecordedStep, RanksComeInAnyOrder) {
  std::vector<PipelineRecord> records = some_records();
  std::swap(records[0], records[1]);
  EXPECT_EQ(join_records(records).schedule, some_schedule());
}

TEST(RecordedStep, MessagesAreLeftOut) {
  std::vector<PipelineRecord> records = some_records();
  records[0].actions.insert(records[0].actions.begin(), {parse_action("0UNSHARD"), {0, 1}});
  records[0].actions.push_back({parse_action("0REDUCE_GRAD"), {6, 7}});
  const RecordedStep step = join_records(records);
  EXPECT_EQ(step.schedule, some_schedule());
  EXPECT_EQ(step.simulation.spans[0][0].start, 0) << "time begins with what computes";
}

TEST(RecordedStep, RecordsThatDoNotFitTogether) {
  const auto refusal = [](const auto& change) {
    std::vector<PipelineRecord> records = some_records();
    change(records);
    return message_of<DataError>([&] { join_records(records); });
  };
  EXPECT_EQ(refusal([](auto& records) { records.pop_back(); }),
            "the records of step 3: rank 1 of 2 is missing");
  EXPECT_EQ(refusal([](auto& records) { records.erase(records.begin()); }),
            "the records of step 3: rank 0 is missing or appears twice");
  EXPECT_EQ(refusal([](auto& records) { records[1].rank = GroupRank{0}; }),
            "the records of step 3: rank 1 is missing or appears twice");
  EXPECT_EQ(refusal([](auto& records) { records[1].step = 4; }),
            "the records of step 3: one is from step 4");
  EXPECT_EQ(refusal([](auto& records) { records[1].schedule = "GPipe"; }),
            "the records of step 3: rank 1 ran another schedule than rank 0");
  EXPECT_NE(refusal([](auto& records) { records[1].actions.pop_back(); }).find("is missing"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& records) {
              for (auto& record : records) record.shape.microbatches = 1 << 22;
            }).find("too large"),
            std::string::npos);
}

TEST(RecordedStep, AStepTakesTime) {
  std::vector<PipelineRecord> records = some_records();
  for (PipelineRecord& record : records) {
    for (RecordedAction& action : record.actions) action.time = {5, 5};
  }
  EXPECT_EQ(message_of<DataError>([&] { join_records(records); }),
            "the records of step 3: the step took less than a nanosecond");
}

TEST(PipelineRun, StepsAreFoundByTheirFiles) {
  const testkit::TemporaryFolder run;
  for (const int64_t step : {12, 3}) {
    for (const PipelineRecord& record : some_records(step)) {
      write_pipeline_record(run.path(), record);
    }
  }
  run.file("pipeline/notes.txt", "mine");
  run.file("pipeline/step-9.json", "mine");
  EXPECT_EQ(recorded_steps(run.path()), (std::vector<int64_t>{3, 12}));
  EXPECT_EQ(read_recorded_step(run.path(), 12).step, 12);
  EXPECT_EQ(message_of<ConfigError>([&] { read_recorded_step(run.path(), 4); }),
            "step 4 was not recorded; choose from 3, 12");
}

TEST(PipelineRun, AFolderWithoutRecords) {
  const testkit::TemporaryFolder run;
  EXPECT_NE(message_of<DataError>([&] {
              recorded_steps(run.path());
            }).find("has no recorded pipeline step"),
            std::string::npos);
}

TEST(PipelineRun, AFileThatHoldsAnotherStep) {
  const testkit::TemporaryFolder run;
  write_pipeline_record(run.path(), some_records(3)[0]);
  run.file("pipeline/step-4.rank-0.json", to_json(some_records(3)[0]));
  EXPECT_NE(message_of<DataError>([&] {
              read_recorded_step(run.path(), 4);
            }).find("contains step 3 of rank 0, which contradicts its name"),
            std::string::npos);
}

TEST(PipelineRun, WhereNothingCanBeWritten) {
  const testkit::TemporaryFolder run;
  run.file("pipeline", "a file");
  EXPECT_NE(message_of<DataError>([&] {
              write_pipeline_record(run.path(), some_records()[0]);
            }).find("cannot create"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
