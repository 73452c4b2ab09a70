#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/config/train_config.h"
#include "tessera/draw/report_page.h"
#include "tessera/plan/traffic.h"
#include "tessera/run/metrics.h"

namespace tessera TSR_API {

/// The training loss per step, and the validation loss at steps that have one.
LossCurve loss_curve(std::span<const StepMetrics> steps);

/// The report page of a run: its charts and its configuration.
ReportPage report_of(const TrainConfig& config, std::span<const StepMetrics> steps);

/// The numbers of a model that traffic depends on.
struct ModelSize {
  int64_t hidden = 0;             // Width of the hidden states.
  int64_t layers = 0;             // Transformer blocks.
  int64_t stages = 1;             // Of its pipeline.
  int64_t parameters = 0;         // Of the whole model, experts included.
  AttentionHeads heads = {};      // Per layer.
  int64_t experts_per_token = 0;  // Experts that each token visits; unused in a dense model.
  int64_t expert_layers = 0;      // Layers with experts; 0: a dense model.
  int64_t expert_parameters = 0;  // Of `parameters`, those of experts; 0: a dense model.
};

/// What rank 0 sent in this step: one line per group, with the formula of its role where there is
/// one. "" if it sent nothing.
std::string sent_text(const TrainConfig& config, const ModelSize& model, const StepMetrics& step);

/// What rank 0 held and its peak, one line each. "" if no step says it.
std::string memory_text(const TrainConfig& config, std::span<const StepMetrics> steps);

/// The groups of the run's plan that have several ranks; empty for a single process.
std::vector<ReportPicture> mesh_pictures(const ParallelSection& parallel);

/// The tokens of each expert over the steps; empty for a dense model.
std::vector<ReportPicture> expert_pictures(std::span<const StepMetrics> steps);

/// Of the last recorded step: the pipeline, its simulation with the measured times, and the units
/// of the first rank; empty if no step was recorded.
std::vector<ReportPicture> recorded_pictures(const std::string& run);

}  // namespace tessera
