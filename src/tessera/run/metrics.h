#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// What a run tells of one step.
struct StepMetrics {
  int64_t step = 0;         // From 0.
  double loss = 0;          // The mean over all tokens of the global batch, before the update.
  double grad_norm = 0;     // Of all gradients, before they are clipped.
  double lr = 0;            // The learning rate of the update.
  double ms = 0;            // Forward, backward and update on rank 0, without the reading of data.
  double tokens_per_s = 0;  // Of the whole job.
  int64_t mem_bytes = 0;    // The most memory that rank 0 has held so far.
  std::optional<double> validation_loss = std::nullopt;  // After the update, where it was taken.

  friend bool operator==(const StepMetrics&, const StepMetrics&) = default;
};

/// One JSON object without line breaks; what is no finite number is null there.
std::string to_json(const StepMetrics& metrics);

/// DataError naming `origin` where the text is no such object. null is read as NaN.
StepMetrics parse_step_metrics(std::string_view text, std::string_view origin);

/// metrics.jsonl: one object a line. Each line is in the file when append() returns.
class MetricsFile {
 public:
  /// Opened for appending; a last line without end, as a killed run leaves it, is removed.
  /// DataError where the operating system refuses.
  explicit MetricsFile(std::string path);
  /// DataError where the operating system refuses, e.g. on a full disk.
  void append(const StepMetrics& metrics);

 private:
  std::string path_;
  Descriptor file_;
};

/// All steps of a metrics file. A last line without end, as a killed run leaves it, is passed over;
/// DataError with the line's number for anything else.
std::vector<StepMetrics> read_metrics(const std::string& path);

}  // namespace tessera
