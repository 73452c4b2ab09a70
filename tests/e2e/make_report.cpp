// make_report FILE [STEPS]: the report of a training run that never was, for the tests of the page.
#include <cmath>
#include <iostream>

#include "cli/files.h"
#include "tessera/base/text.h"
#include "tessera/draw/report_page.h"
#include "tessera/draw/timeline_svg.h"
#include "tessera/run/report.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/measure.h"
#include "tests/testkit/jitter.h"

namespace tessera {
namespace {

// From -1 to 1, without order, and the same in every run.
double noise(int64_t step) {
  return std::sin(static_cast<double>(step * step % 1009) * 12.9898);
}

CurveSeries series(const std::string& name, int64_t steps,
                   double (*value)(double share, double noise)) {
  CurveSeries made{name, {}};
  for (int64_t step = 0; step < steps; ++step) {
    const double share = static_cast<double>(step) / static_cast<double>(steps);
    made.points.push_back({static_cast<double>(step), value(share, noise(step))});
  }
  return made;
}

double loss(double share, double noise) {
  return 1.6 + 3.9 * std::exp(-6 * share) + 0.12 * noise;
}

std::vector<ReportChart> charts(int64_t steps) {
  CurveSeries validation{"validation", {}};
  for (int64_t step = 0; step <= steps; step += std::max<int64_t>(1, steps / 10)) {
    const double share = static_cast<double>(step) / static_cast<double>(steps);
    validation.points.push_back({static_cast<double>(step), loss(share, 0) + 0.08});
  }
  return {{.title = "Loss", .series = {series("training", steps, loss), validation}},
          {.title = "Learning rate",
           .series = {series("lr", steps,
                             [](double share, double) {
                               return share < 0.1 ? 0.02 * share
                                                  : 0.001 * (1 + std::cos(3.2 * share));
                             })}},
          {.title = "Gradient norm",
           .series = {series("norm", steps,
                             [](double share, double n) { return 1.2 - 0.6 * share + 0.2 * n; })}},
          {.title = "Speed",
           .unit = "tokens/s",
           .series = {series("speed", steps, [](double, double n) { return 8100 + 240 * n; })}},
          {.title = "Peak memory",
           .unit = "MiB",
           .series = {series("memory", steps, [](double, double) { return 412.5; })}}};
}

std::vector<ReportPicture> pipeline() {
  const Schedule schedule = generate({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 4});
  const Costs costs{.forward = {10}, .input_grad = {11}, .weight_grad = {9}, .message = {0.5}};
  const Simulation real = testkit::JitteryRun(schedule, costs, 0.15).perform();
  const Simulation simulation = simulate(schedule, measure_costs(schedule, real));
  const std::vector<Timeline> timelines{{schedule, real, "1F1B, measured"},
                                        {schedule, simulation, "1F1B, simulated"}};
  return {{.title = "Step 120 as it ran, and simulated",
           .words = "In milliseconds, on one axis.",
           .svg = draw_svg(timelines, "1F1B", timelines[0].shape_text())}};
}

ReportPage page(int64_t steps) {
  return {
      .title = "Training tiny",
      .summary = "A Llama of 3,212,800 parameters went from 5.53 to 1.62 in 1:57.",
      .charts = charts(steps),
      .run = {{"Command",
               "tessera train --model.layers=4 --train.steps=230 --run-dir runs/example"},
              {"Started", "2026-02-03 10:20:30"},
              {"Duration", "1:57"},
              {"Versions", "Tessera 0.1.0, LibTorch 2.13.0"},
              {"name", "<b onclick=alert(1)>&\nsecond line"}},
      .configuration =
          {{.title = "model", .facts = {{"layers", "4"}, {"hidden", "192"}, {"heads", "6"}}},
           {.title = "train",
            .facts = {{"steps", concat(steps)}, {"batch", "16"}, {"seq", "256"}, {"lr", "0.002"}}},
           {.title = "data", .facts = {{"paths", "src docs"}, {"seed", "1"}}}},
      .mesh = mesh_pictures({.nproc = 4, .dp = 2, .pp = 2}),
      .pipeline = pipeline()};
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "usage: make_report FILE [STEPS]\n";
    return 2;
  }
  const auto steps = tessera::to_integer(count > 2 ? arguments[2] : "230");
  tessera::cli::write_file(arguments[1], tessera::draw_page(tessera::page(steps.value_or(230))));
}
