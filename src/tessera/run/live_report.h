#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/run/metrics.h"
#include "tessera/run/page_server.h"

namespace tessera TSR_API {

/// Reads the metrics of a run while it goes on: each time only what is new.
class MetricsReader {
 public:
  explicit MetricsReader(std::string path) : path_(std::move(path)) {}

  /// Reads on. A file that was replaced, e.g. by a resumed run, is read anew; a missing one has no
  /// steps. DataError as read_metrics().
  void update();
  /// All steps that update() has read, in the order of the file.
  const std::vector<StepMetrics>& steps() const { return steps_; }

 private:
  std::string path_;
  uint64_t file_ = 0;    // Its inode number.
  uint64_t offset_ = 0;  // Of the first line that has not been read.
  std::vector<StepMetrics> steps_;
};

/// The report of a run directory while the run goes on.
class LiveReport {
 public:
  /// DataError if the folder holds no run.
  explicit LiveReport(std::string run);

  /// "/" is the page, "/data" its JSON; both with the files as they are now.
  std::optional<ServedPage> page(std::string_view path);

 private:
  /// Changes with the files of the run.
  std::string version() const;
  ServedPage make(bool as_json) const;

  std::string run_;
  MetricsReader metrics_;
};

}  // namespace tessera
