// The recorded steps of a run: their files, and the combined records of all ranks.
#include <algorithm>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/base/read_file.h"
#include "tessera/format/internal/record_files.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/schedule/choose.h"
#include "tessera/schedule/verify.h"

namespace tessera {

using namespace format::detail;

namespace {

namespace fs = std::filesystem;

constexpr double kMsPerSecond = 1e3;
constexpr double kShortestMs = 1e-6;  // The resolution of clocks; a time axis needs a length.

fs::path folder_of(const fs::path& run) {
  return run / "pipeline";
}

RecordFiles files_of(const fs::path& run) {
  RecordFiles files = record_files(folder_of(run));
  if (files.empty()) {
    throw DataError(concat(run.string(), " has no recorded pipeline step (pipeline/step-K.rank-R.",
                           "json); give the folder of a run that recorded one"));
  }
  return files;
}

[[noreturn]] void refuse(const PipelineRecord& record, std::string_view why) {
  throw DataError(concat("the records of step ", record.step, ": ", why));
}

void check_together(const std::vector<PipelineRecord>& records) {
  const PipelineRecord& first = records.front();
  for (size_t i = 0; i < records.size(); ++i) {
    const PipelineRecord& record = records[i];
    if (record.step != first.step) refuse(first, concat("one is from step ", record.step));
    if (record.schedule != first.schedule || record.shape != first.shape) {
      refuse(first, concat("rank ", record.rank, " ran another schedule than rank ", first.rank));
    }
    if (record.rank.value != static_cast<int64_t>(i))
      refuse(first, concat("rank ", i, " is missing or appears twice"));
  }
  if (std::ssize(records) != first.shape.pp) {
    refuse(first, concat("rank ", records.size(), " of ", first.shape.pp, " is missing"));
  }
}

struct Rows {
  std::vector<ScheduleRow> actions;
  std::vector<std::vector<TimeSpan>> spans;  // Milliseconds since the first start.
};

Rows rows_of(const std::vector<PipelineRecord>& records) {
  double origin = std::numeric_limits<double>::infinity();
  Rows rows;
  for (const PipelineRecord& record : records) {
    rows.actions.emplace_back();
    rows.spans.emplace_back();
    for (const auto& [action, time] : record.actions) {
      if (!action.computes()) continue;
      rows.actions.back().push_back(action);
      rows.spans.back().push_back(time);
      origin = std::min(origin, time.start);
    }
  }
  for (auto& row : rows.spans) {
    for (TimeSpan& span : row) {
      span = {(span.start - origin) * kMsPerSecond, (span.end - origin) * kMsPerSecond};
    }
  }
  return rows;
}

}  // namespace

fs::path pipeline_record_path(const fs::path& run, int64_t step, GroupRank rank) {
  return record_path(folder_of(run), step, rank.value);
}

void write_pipeline_record(const fs::path& run, const PipelineRecord& record) {
  write_record(pipeline_record_path(run, record.step, record.rank), to_json(record));
}

RecordedStep join_records(std::vector<PipelineRecord> records) {
  TSR_CHECK(!records.empty(), "a recorded step needs at least one rank");
  std::ranges::sort(records, {}, &PipelineRecord::rank);
  check_together(records);
  const PipelineRecord& first = records.front();
  try {
    check_table_size(first.shape, TableOrigin::kGiven);
    Rows rows = rows_of(records);
    Schedule schedule(first.schedule, first.shape, std::move(rows.actions));
    verify(schedule);
    Simulation simulation = simulation_of(schedule, std::move(rows.spans));
    if (simulation.makespan < kShortestMs) refuse(first, "the step took less than a nanosecond");
    return {first.step, std::move(schedule), std::move(simulation)};
  } catch (const ConfigError& error) {
    refuse(first, error.what());
  }
}

std::vector<int64_t> recorded_steps(const fs::path& run) {
  return steps_of(files_of(run));
}

RecordedStep read_recorded_step(const fs::path& run, int64_t step) {
  const RecordFiles files = files_of(run);
  std::vector<PipelineRecord> records;
  for (const fs::path& path : files_of_step(files, step)) {
    records.push_back(
        parse_pipeline_record(read_file(path, kLargestPipelineRecord), path.string()));
    check_name(path, records.back().step, records.back().rank.value);
  }
  return join_records(std::move(records));
}

}  // namespace tessera
