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

/// What a rank of a pipeline did in one step of a real run, and when. docs/reports.md has the
/// files.
namespace tessera TSR_API {

struct RecordedAction {
  Action action = {};
  TimeSpan time = {};  // Seconds since an origin that is common to the pipeline's ranks.

  friend bool operator==(const RecordedAction&, const RecordedAction&) = default;
};

/// One rank's part of one step.
struct PipelineRecord {
  std::string schedule = {};  // Its name.
  ScheduleShape shape = {};
  int64_t step = 0;  // Of the run, from 0.
  GroupRank rank = {};
  /// In the order of the rank's row. What computes is there whole, each with the time it took;
  /// messages and the like may be.
  std::vector<RecordedAction> actions = {};

  friend bool operator==(const PipelineRecord&, const PipelineRecord&) = default;
};

/// Bytes; a million actions take some sixty MB.
inline constexpr size_t kLargestPipelineRecord = size_t{128} << 20;

/// A JSON document with a line an action.
std::string to_json(const PipelineRecord& record);
/// DataError names `origin`, the field and what was expected; no input does worse.
PipelineRecord parse_pipeline_record(std::string_view text, std::string_view origin);

/// "RUN/pipeline/step-12.rank-3.json".
std::filesystem::path pipeline_record_path(const std::filesystem::path& run, int64_t step,
                                           GroupRank rank);
/// Writes the record there, making the folder where it is missing. One pipeline of the run records:
/// that of the first replica.
void write_pipeline_record(const std::filesystem::path& run, const PipelineRecord& record);

/// A step of all ranks: a table and when its actions happened, so that all that is made of a
/// simulation can be made of it. What does not compute is left out.
struct RecordedStep {
  int64_t step = 0;
  Schedule schedule;
  Simulation simulation;  // In milliseconds, from 0 on.
};

/// DataError where the records are not those of all ranks of one step, or make no complete table.
RecordedStep join_records(std::vector<PipelineRecord> records);

/// The steps that the run recorded, ascending. DataError where there is none.
std::vector<int64_t> recorded_steps(const std::filesystem::path& run);
RecordedStep read_recorded_step(const std::filesystem::path& run, int64_t step);

}  // namespace tessera
