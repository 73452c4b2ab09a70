#include "tessera/train/report.h"

#include <functional>

#include "tessera/train/config_fields.h"

namespace tessera {
namespace {

using Value = std::function<double(const StepMetrics&)>;

CurveSeries series_of(std::string name, std::span<const StepMetrics> steps, const Value& value) {
  CurveSeries series{.name = std::move(name)};
  for (const StepMetrics& step : steps) {
    series.points.push_back({static_cast<double>(step.step), value(step)});
  }
  return series;
}

CurveSeries validation_of(std::span<const StepMetrics> steps) {
  CurveSeries series{.name = "validation"};
  for (const StepMetrics& step : steps) {
    const auto x = static_cast<double>(step.step);
    if (step.validation_loss) series.points.push_back({x, *step.validation_loss});
  }
  return series;
}

ReportChart chart(std::string title, std::string unit, std::span<const StepMetrics> steps,
                  const Value& value) {
  std::string name = title;
  return {std::move(title), std::move(unit), {series_of(std::move(name), steps, value)}};
}

// One table a section, in the order of the fields.
std::vector<ReportTable> tables_of(const TrainConfig& config) {
  std::vector<ReportTable> tables;
  for (const ConfigField& field : config_fields()) {
    if (tables.empty() || tables.back().title != field.section) {
      tables.push_back({.title = std::string(field.section)});
    }
    tables.back().facts.emplace_back(field.key, to_toml(value_of(field, config)));
  }
  return tables;
}

}  // namespace

LossCurve loss_curve(std::span<const StepMetrics> steps) {
  LossCurve curve{.series = {series_of("training", steps, &StepMetrics::loss)}};
  CurveSeries validation = validation_of(steps);
  if (!validation.points.empty()) curve.series.push_back(std::move(validation));
  return curve;
}

ReportPage report_of(const TrainConfig& config, std::span<const StepMetrics> steps) {
  const auto mebibytes = [](const StepMetrics& step) {
    return static_cast<double>(step.mem_bytes) / (1 << 20);
  };
  return {.charts = {{"Loss", "", loss_curve(steps).series},
                     chart("Learning rate", "", steps, &StepMetrics::lr),
                     chart("Gradient norm", "", steps, &StepMetrics::grad_norm),
                     chart("Speed", "tokens/s", steps, &StepMetrics::tokens_per_s),
                     chart("Time of a step", "ms", steps, &StepMetrics::ms),
                     chart("Memory at most", "MiB", steps, mebibytes)},
          .configuration = tables_of(config)};
}

}  // namespace tessera
