#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"
#include "tessera/config/train_config.h"
#include "tessera/format/event_file.h"
#include "tessera/run/metrics.h"
#include "tessera/run/run_folder.h"

namespace tessera TSR_API {

/// The heading of metrics.csv, and the row of a step. A value that the step does not have is empty.
std::string csv_heading();
/// The row of a step.
std::string csv_row(const StepMetrics& metrics);

/// The metrics of a run while it goes on: metrics.jsonl, and, if the configuration says so,
/// metrics.csv and TensorBoard's event files. Each step is in all files when append() returns.
class RunLog {
 public:
  /// After RunFolder::begin() or resume(). DataError if the operating system refuses.
  RunLog(const RunFolder& folder, const RunSection& run, int64_t first_step);
  /// DataError if the operating system refuses, e.g. on a full disk.
  void append(const StepMetrics& metrics);

 private:
  MetricsFile metrics_;
  std::string csv_path_;
  Descriptor csv_;  // Closed if there is none.
  std::optional<EventFile> events_ = std::nullopt;
};

}  // namespace tessera
