#include "tessera/train/graphed_step.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tessera/base/check.h"
#include "tessera/kernel/gpu_graph.h"

namespace tessera {
namespace {

void check_keywords(const PipelineBatch& batch) {
  for (const auto& [name, value] : batch.keywords) {
    TSR_CHECK(!std::holds_alternative<at::Tensor>(value), "CUDA graphs cannot record a step with '",
              name, "', which differ from batch to batch; leave one of them out");
  }
}

}  // namespace

GraphedStep::GraphedStep(at::Device device, Parameters parameters)
    : parameters_(std::move(parameters)), graph_(make_gpu_graph(device)) {}

GraphedStep::GraphedStep(GraphedStep&&) noexcept = default;
GraphedStep& GraphedStep::operator=(GraphedStep&&) noexcept = default;
GraphedStep::~GraphedStep() = default;

GraphedStep::Form GraphedStep::form_of(const PipelineBatch& batch) const {
  Form form{batch.inputs.at(0).sizes().vec(), batch.target.sizes().vec(), batch.loss_scale, {}};
  for (const Parameter& parameter : parameters_) {
    form.weights.push_back(parameter.tensor.const_data_ptr());
  }
  return form;
}

PipelineResult GraphedStep::run(Pipeline& pipeline, const PipelineBatch& batch) {
  check_keywords(batch);
  if (Form form = form_of(batch); form != form_) begin(std::move(form));
  if (batch.record || has_gradients() || warm_ups_ < kWarmUpSteps) {
    ++warm_ups_;
    PipelineResult result;
    graph_->run([&] { result = pipeline.step(batch); });
    return result;
  }
  if (!recorded_) record(pipeline, batch);
  return replay(batch);
}

// Layers keep what depends on the shape alone, e.g. the angles of the rotary embedding. Another
// shape replaces it, and a recording would read freed memory.
PipelineResult GraphedStep::evaluate(Pipeline& pipeline, const PipelineBatch& batch) {
  if (form_ && batch.inputs.at(0).sizes() != form_->inputs) begin(std::nullopt);
  return pipeline.evaluate(batch);
}

// The memory of an earlier recording is free before the next one begins.
void GraphedStep::begin(std::optional<Form> form) {
  if (recorded_) {
    recorded_.reset();
    graph_->forget();
  }
  form_ = std::move(form);
  warm_ups_ = 0;
}

bool GraphedStep::has_gradients() const {
  return std::ranges::any_of(
      parameters_, [](const Parameter& parameter) { return parameter.tensor.grad().defined(); });
}

void GraphedStep::record(Pipeline& pipeline, const PipelineBatch& batch) {
  Recorded made{.batch = batch, .result = {}, .gradients = {}};
  made.batch.inputs = {batch.inputs.at(0).clone()};
  made.batch.target = batch.target.clone();
  graph_->record([&] { made.result = pipeline.step(made.batch); });
  for (const Parameter& parameter : parameters_) {
    made.gradients.push_back(parameter.tensor.grad());
  }
  recorded_ = std::move(made);
}

PipelineResult GraphedStep::replay(const PipelineBatch& batch) {
  recorded_->batch.inputs.at(0).copy_(batch.inputs.at(0), /*non_blocking=*/true);
  recorded_->batch.target.copy_(batch.target, /*non_blocking=*/true);
  graph_->replay();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].tensor.mutable_grad() = recorded_->gradients[i];
  }
  return recorded_->result;
}

}  // namespace tessera
