#include "tessera/run/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/config/fields.h"
#include "tessera/draw/heat_map.h"
#include "tessera/draw/rank_grid.h"
#include "tessera/draw/timeline_svg.h"
#include "tessera/draw/unit_timeline.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/format/unit_record.h"
#include "tessera/plan/traffic.h"
#include "tessera/plan/train_plan.h"
#include "tessera/run/run_folder.h"
#include "tessera/schedule/measure.h"

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

// One table per section, in the order of the fields.
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

// The kinds of groups with several ranks; each once, even if it has several purposes.
std::vector<GroupSpec> kinds_to_draw(const Plan& plan) {
  std::vector<GroupSpec> kinds;
  for (const GroupSpec& spec : plan.specs()) {
    const GroupFamily& groups = spec.groups;
    const bool known = std::ranges::any_of(
        kinds, [&](const GroupSpec& other) { return other.groups.groups() == groups.groups(); });
    if (groups.size() > 1 && groups.covers() && !known) kinds.push_back(spec);
  }
  return kinds;
}

bool has_folder(const std::string& run, std::string_view name) {
  return std::filesystem::is_directory(std::filesystem::path(run) / name);
}

void add_pipeline(const std::string& run, std::vector<ReportPicture>& pictures) {
  const RecordedStep step = read_recorded_step(run, recorded_steps(run).back());
  const Schedule& schedule = step.schedule;
  const Simulation simulation = simulate(schedule, measure_costs(schedule, step.simulation));
  const std::vector<Timeline> timelines{{schedule, step.simulation, schedule.name() + ", measured"},
                                        {schedule, simulation, schedule.name() + ", simulated"}};
  pictures.push_back(
      {.title = concat("Step ", step.step, " as it ran, and simulated"),
       .words = "In milliseconds, on one axis. The simulation has the median time of each stage's "
                "actions.",
       .svg = draw_svg(timelines, schedule.name(), timelines[0].shape_text())});
}

void add_units(const std::string& run, std::vector<ReportPicture>& pictures) {
  const UnitRecord record = read_unit_records(run, recorded_unit_steps(run).back()).front();
  const std::string words = to_string(communication_times(record));
  pictures.push_back({.title = concat("The units in step ", record.step),
                      .words = words,
                      .svg = draw_svg(unit_timeline(record), concat("Rank ", record.rank), words)});
}

TrainingStep training_step(const TrainConfig& config, const ModelSize& model) {
  const ParallelSection& parallel = config.parallel;
  const int64_t slices = parallel.pp > 1 ? parallel.microbatches : config.optim.accumulate;
  return {.hidden = model.hidden,
          .layers = model.layers,
          .sequence = config.data.seq,
          .micro_batch = config.data.batch / (parallel.dp * slices),
          .microbatches = slices,
          .experts_per_token = std::max<int64_t>(1, model.experts_per_token),
          .expert_layers = model.expert_layers,
          .parameters = model.parameters,
          .expert_parameters = model.expert_parameters,
          .element_bytes = element_bytes(config.train.dtype),
          .sequence_parallel = parallel.sp,
          .heads = model.heads,
          .context = context_of(parallel),
          .gathers_tokens = parallel.dispatch == "all_gather"};
}

// Whether a step has more passes than one forward and one backward: second ones of recompute, or
// first ones that count the tokens of experts.
bool has_more_passes(const TrainConfig& config, const TrainingStep& step) {
  const std::string& recompute = config.parallel.recompute;
  const bool dense = step.expert_layers == 0;
  return recompute == "full" ||
         (!dense && (recompute == "selective" || step.microbatches > 1 || config.parallel.pp > 1));
}

std::string mebibytes_text(int64_t bytes) {
  return fixed(static_cast<double>(bytes) / (1 << 20), 1) + " MiB";
}

// Whether the ranks have different numbers of rows or layers.
bool is_uneven(const TrainConfig& config, const TrainingStep& step) {
  return step.micro_batch * step.microbatches * config.parallel.dp != config.data.batch ||
         step.layers % config.parallel.pp != 0;
}

}  // namespace

std::string sent_text(const TrainConfig& config, const ModelSize& model, const StepMetrics& step) {
  const ParallelSection& parallel = config.parallel;
  const TrainingStep shape = training_step(config, model);
  std::vector<Traffic> expected;
  if (!is_uneven(config, shape) && !has_more_passes(config, shape)) {
    expected = traffic_of(
        train_layout(dims_of(parallel), parallel.dp_type, model.expert_parameters > 0), shape);
  }
  // The formula is that of one stage per rank.
  if (model.stages > parallel.pp) std::erase_if(expected, [](auto& t) { return t.name == "pp"; });
  std::string text;
  for (const auto& [group, bytes] : step.sent_bytes) {
    text += concat(text.empty() ? "" : "\n", group, ": ", with_thousands(bytes), " bytes");
    const auto known = std::ranges::find(expected, group, &Traffic::name);
    if (known == expected.end()) continue;
    text += concat("; ", known->formula, " = ",
                   with_thousands(static_cast<int64_t>(std::llround(known->bytes))));
  }
  return text;
}

std::string memory_text(const TrainConfig& config, std::span<const StepMetrics> steps) {
  const auto known =
      std::ranges::find_if(steps.rbegin(), steps.rend(),
                           [](const StepMetrics& step) { return !step.held_bytes.empty(); });
  if (known == steps.rend()) return "";
  const int64_t peak = steps.back().mem_bytes;
  int64_t rest = peak;
  std::string text;
  const auto add = [&](const std::string& what, int64_t bytes) {
    text += concat(text.empty() ? "" : "\n", what, ": ", mebibytes_text(bytes));
    rest -= bytes;
  };
  for (const auto& [what, bytes] : known->held_bytes) add(what, bytes);
  // On a CPU the peak is that of the whole process.
  const bool is_cpu = config.train.device == "cpu";
  if (rest > 0) add(is_cpu ? "activations and the program" : "activations and buffers", rest);
  return text + "\npeak: " + mebibytes_text(peak);
}

LossCurve loss_curve(std::span<const StepMetrics> steps) {
  LossCurve curve{.series = {series_of("training", steps, &StepMetrics::loss)}};
  CurveSeries validation = validation_of(steps);
  if (!validation.points.empty()) curve.series.push_back(std::move(validation));
  return curve;
}

std::vector<ReportPicture> mesh_pictures(const ParallelSection& parallel) {
  const ParallelDims dims = dims_of(parallel);
  const std::vector<GroupSpec> kinds = kinds_to_draw(train_plan(dims.world(), dims));
  if (kinds.empty()) return {};
  const int64_t ranks_per_node = std::min<int64_t>(dims.world(), 8);
  return {{.title = concat(dims.world(), " ranks"),
           .words = "",
           .svg = draw_svg(make_rank_grid(kinds, ranks_per_node, {}), to_string(dims), "")}};
}

std::vector<ReportPicture> expert_pictures(std::span<const StepMetrics> steps) {
  HeatMap map;
  for (const StepMetrics& step : steps) {
    if (step.expert_load.empty()) continue;
    map.steps.push_back(static_cast<double>(step.step));
    map.columns.push_back(step.expert_load);
  }
  if (map.columns.empty()) return {};
  const std::string words = "Over all layers, divided by the mean: 1 if all have equally many.";
  return {{.title = "Tokens per expert",
           .words = words,
           .svg = draw_svg(map, "Tokens per expert", words)}};
}

std::vector<ReportPicture> recorded_pictures(const std::string& run) {
  std::vector<ReportPicture> pictures;
  if (has_folder(run, RunFolder::kPipeline)) add_pipeline(run, pictures);
  if (has_folder(run, RunFolder::kUnits)) add_units(run, pictures);
  return pictures;
}

ReportPage report_of(const TrainConfig& config, std::span<const StepMetrics> steps) {
  const auto mebibytes = [](const StepMetrics& step) {
    return static_cast<double>(step.mem_bytes) / (1 << 20);
  };
  ReportPage page{.charts = {{"Loss", "", loss_curve(steps).series},
                             chart("Learning rate", "", steps, &StepMetrics::lr),
                             chart("Gradient norm", "", steps, &StepMetrics::grad_norm),
                             chart("Speed", "tokens/s", steps, &StepMetrics::tokens_per_s),
                             chart("Step time", "ms", steps, &StepMetrics::ms),
                             chart("Peak memory", "MiB", steps, mebibytes)},
                  .configuration = tables_of(config)};
  if (!steps.empty() && steps.front().aux_loss) {
    const auto aux = [](const StepMetrics& step) { return step.aux_loss.value_or(0); };
    page.charts.push_back(chart("Balancing loss", "", steps, aux));
    page.charts.push_back(chart("Largest load of an expert", "", steps,
                                [](const StepMetrics& step) { return step.largest_load(); }));
  }
  if (!steps.empty() && steps.front().loss_scale) {
    const auto scale = [](const StepMetrics& step) { return step.loss_scale.value_or(1); };
    page.charts.push_back(chart("Loss scale", "", steps, scale));
  }
  return page;
}

}  // namespace tessera
