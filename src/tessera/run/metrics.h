#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Bytes by the name of what they are of.
using NamedBytes = std::map<std::string, int64_t, std::less<>>;

/// The metrics of one step.
struct StepMetrics {
  int64_t step = 0;         // From 0.
  double loss = 0;          // Mean over all tokens of the global batch, before the update.
  double grad_norm = 0;     // Of all gradients, before clipping, without loss scale.
  double lr = 0;            // Learning rate of the update.
  double ms = 0;            // Of the whole step on rank 0, from its batch on; see docs/training.md.
  double tokens_per_s = 0;  // Over all ranks.
  int64_t mem_bytes = 0;    // Peak memory of rank 0 so far.
  std::optional<double> validation_loss = std::nullopt;  // After the update, if measured.
  std::optional<double> loss_scale = std::nullopt;       // Of float16 training.
  /// What rank 0 sent in this step, by the name of the group. Empty for a single rank.
  NamedBytes sent_bytes = {};
  /// What rank 0 holds from step to step: "parameters", "gradients" and "optimizer" with its
  /// float32 copies. Only in the first step of a process; empty in others.
  NamedBytes held_bytes = {};
  /// The balancing loss of experts without its coefficient; none in a dense model.
  std::optional<double> aux_loss = std::nullopt;
  /// The z-loss of routers without its coefficient, if it has one.
  std::optional<double> z_loss = std::nullopt;
  /// Tokens of each expert, over all layers, divided by their mean. Empty in a dense model.
  std::vector<double> expert_load = {};
  /// The share of the tokens' visits to experts that were dropped, if experts have a capacity.
  std::optional<double> dropped_share = std::nullopt;
  bool spike = false;    // Loss or gradient norm far above those of the last steps: no update.
  bool skipped = false;  // No update, since the step was not good; the run continues.
  /// The steps of the checkpoint whose state the run continues with, since the step was not good.
  std::optional<int64_t> rolled_back_to = std::nullopt;

  /// Whether the weights were updated: the numbers are finite and no spike.
  bool is_good() const;
  /// That of the expert with the most tokens; 1 if all have equally many.
  double largest_load() const;
  friend bool operator==(const StepMetrics&, const StepMetrics&) = default;
};

/// One JSON object on one line; non-finite values are null.
std::string to_json(const StepMetrics& metrics);

/// DataError naming `origin` if the text is not such an object. null is read as NaN.
StepMetrics parse_step_metrics(std::string_view text, std::string_view origin);

/// metrics.jsonl: one object per line. Each line is in the file when append() returns.
class MetricsFile {
 public:
  /// Opens the file for appending and removes an incomplete last line, which a killed run may
  /// leave. DataError if the operating system refuses.
  explicit MetricsFile(std::string path);
  /// DataError if the operating system refuses, e.g. on a full disk.
  void append(const StepMetrics& metrics);

 private:
  std::string path_;
  Descriptor file_;
};

/// Removes the lines of this step and later ones; the file is replaced whole or not at all.
void drop_metrics_from(const std::string& path, int64_t step);

/// All steps of a metrics file. Skips an incomplete last line, which a killed run may leave;
/// DataError with the line number for any other malformed line.
std::vector<StepMetrics> read_metrics(const std::string& path);

}  // namespace tessera
