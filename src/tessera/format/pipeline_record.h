#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"
#include "tessera/topology/rank.h"

/// What a pipeline rank did in one step of a real run, and when. docs/reports.md has the files.
namespace tessera TSR_API {

/// An action of a pipeline and when it ran.
struct RecordedAction {
  Action action = {};  // Never kIdle.
  TimeSpan time = {};  // Seconds since an origin that all ranks of the pipeline share.

  friend bool operator==(const RecordedAction&, const RecordedAction&) = default;
};

/// One rank's part of one step.
struct PipelineRecord {
  std::string schedule = {};  // The schedule's name.
  ScheduleShape shape = {};   // Of the whole schedule.
  int64_t step = 0;           // Of the run, from 0.
  GroupRank rank = {};        // In the pipeline.
  /// In the order of the rank's row. All compute actions with their times; other actions, such as
  /// messages, are optional.
  std::vector<RecordedAction> actions = {};

  friend bool operator==(const PipelineRecord&, const PipelineRecord&) = default;
};

/// Bytes; a million actions take about 60 MB.
inline constexpr size_t kLargestPipelineRecord = size_t{128} << 20;

/// A JSON document with one line per action.
std::string to_json(const PipelineRecord& record);
/// DataError with `origin`, the field and the expectation for any malformed input.
PipelineRecord parse_pipeline_record(std::string_view text, std::string_view origin);

/// "RUN/pipeline/step-12.rank-3.json".
std::filesystem::path pipeline_record_path(const std::filesystem::path& run, int64_t step,
                                           GroupRank rank);
/// Writes the record there and creates the folder if needed. Only the first replica's pipeline
/// is recorded.
void write_pipeline_record(const std::filesystem::path& run, const PipelineRecord& record);

/// A step of all ranks: a table and the times of its actions, in the form of a simulation.
struct RecordedStep {
  int64_t step = 0;       // Of the run, from 0.
  Schedule schedule;      // Compute actions only, as the ranks ran them.
  Simulation simulation;  // In milliseconds, from 0 on.
};

/// DataError if the records are not those of all ranks of one step or form no complete table.
RecordedStep join_records(std::vector<PipelineRecord> records);

/// The recorded steps of the run, ascending. DataError if there are none.
std::vector<int64_t> recorded_steps(const std::filesystem::path& run);
/// The recorded step of a run directory.
RecordedStep read_recorded_step(const std::filesystem::path& run, int64_t step);

}  // namespace tessera
