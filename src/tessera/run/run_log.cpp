#include "tessera/run/run_log.h"

#include <fcntl.h>

#include <array>
#include <filesystem>
#include <vector>

#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/format/new_file.h"

namespace tessera {
namespace {

/// A number of a step: its column in metrics.csv, and TensorBoard's tag.
struct Column {
  std::string_view name;
  std::string_view tag;
  std::optional<double> (*value)(const StepMetrics& step);
};

using Step = const StepMetrics&;
constexpr std::array kColumns{
    Column{"loss", "train/loss", [](Step s) { return std::optional(s.loss); }},
    Column{"grad_norm", "train/grad_norm", [](Step s) { return std::optional(s.grad_norm); }},
    Column{"lr", "train/lr", [](Step s) { return std::optional(s.lr); }},
    Column{"ms", "speed/ms", [](Step s) { return std::optional(s.ms); }},
    Column{"tokens_per_s", "speed/tokens_per_s",
           [](Step s) { return std::optional(s.tokens_per_s); }},
    Column{"mem_bytes", "memory/peak_bytes",
           [](Step s) { return std::optional(static_cast<double>(s.mem_bytes)); }},
    Column{"validation_loss", "validation/loss", [](Step s) { return s.validation_loss; }},
    Column{"loss_scale", "train/loss_scale", [](Step s) { return s.loss_scale; }},
    Column{"aux_loss", "train/aux_loss", [](Step s) { return s.aux_loss; }},
    Column{"z_loss", "train/z_loss", [](Step s) { return s.z_loss; }},
    Column{"largest_load", "train/largest_load",
           [](Step s) {
             return s.expert_load.empty() ? std::nullopt : std::optional(s.largest_load());
           }},
    Column{"skipped", "train/skipped",
           [](Step s) { return s.skipped ? std::optional(1.0) : std::nullopt; }},
    Column{"rolled_back_to", "train/rolled_back_to", [](Step s) {
             return s.rolled_back_to ? std::optional(static_cast<double>(*s.rolled_back_to))
                                     : std::nullopt;
           }}};

std::vector<EventScalar> scalars_of(const StepMetrics& metrics) {
  std::vector<EventScalar> scalars;
  for (const Column& column : kColumns) {
    if (const auto value = column.value(metrics)) scalars.push_back({column.tag, *value});
  }
  return scalars;
}

// Written anew, so that a resumed run has no row twice.
Descriptor begin_csv(const std::string& path, const std::string& metrics) {
  std::string text = csv_heading();
  if (std::filesystem::exists(metrics)) {
    for (const StepMetrics& step : read_metrics(metrics)) text += csv_row(step);
  }
  NewFile file(path);
  file.write(text);
  file.finish();
  return checked(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC), "cannot write " + path);
}

}  // namespace

std::string csv_heading() {
  std::string text = "step";
  for (const Column& column : kColumns) text += concat(",", column.name);
  return text + "\n";
}

std::string csv_row(const StepMetrics& metrics) {
  std::string text = std::to_string(metrics.step);
  for (const Column& column : kColumns) {
    const auto value = column.value(metrics);
    text += concat(",", value ? exact_text(*value) : "");
  }
  return text + "\n";
}

RunLog::RunLog(const RunFolder& folder, const RunSection& run, int64_t first_step)
    : metrics_(folder.path(RunFolder::kMetrics)), csv_path_(folder.path(RunFolder::kCsv)) {
  if (run.csv) csv_ = begin_csv(csv_path_, folder.path(RunFolder::kMetrics));
  if (run.tensorboard) events_.emplace(folder.path(RunFolder::kEvents), first_step);
}

void RunLog::append(const StepMetrics& metrics) {
  metrics_.append(metrics);
  if (csv_.is_open()) write_all(csv_, csv_row(metrics), csv_path_);
  if (events_) events_->append(metrics.step, scalars_of(metrics));
}

}  // namespace tessera
