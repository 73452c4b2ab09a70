#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/config/train_config.h"
#include "tessera/draw/report_page.h"
#include "tessera/run/metrics.h"

namespace tessera TSR_API {

/// The training loss of each step, and the validation loss where it was taken.
LossCurve loss_curve(std::span<const StepMetrics> steps);

/// What a run's page shows of its steps and its configuration.
ReportPage report_of(const TrainConfig& config, std::span<const StepMetrics> steps);

/// The groups of the run's plan that have several ranks; none for one process.
std::vector<ReportPicture> mesh_pictures(const ParallelSection& parallel);

/// The last recorded step of the run's pipeline beside its simulation with the times that were
/// measured; none where no step was recorded.
std::vector<ReportPicture> pipeline_pictures(const std::string& run);

}  // namespace tessera
