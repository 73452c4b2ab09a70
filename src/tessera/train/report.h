#pragma once

#include <span>
#include <string>

#include "tessera/draw/report_page.h"
#include "tessera/train/metrics.h"
#include "tessera/train/train_config.h"

namespace tessera {

/// The training loss of each step, and the validation loss where it was taken.
LossCurve loss_curve(std::span<const StepMetrics> steps);

/// What a run's page shows of its steps and its configuration.
ReportPage report_of(const TrainConfig& config, std::span<const StepMetrics> steps);

}  // namespace tessera
