#include "tessera/train/engine.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tessera/comm/collectives.h"
#include "tessera/layer/documents.h"
#include "tessera/optim/clip.h"
#include "tessera/tensor/copied_to.h"

namespace tessera {

Span rows_of(int64_t batch, const Group& sharers) {
  const int64_t rank = sharers.rank().value;
  return {batch * rank / sharers.size(), batch * (rank + 1) / sharers.size()};
}

Engine::Engine(EngineParts parts) : parts_(std::move(parts)) {}

Span Engine::rows() const {
  return rows_of(parts_.batch, parts_.plan.group("batch"));
}

double Engine::share() const {
  return static_cast<double>(rows().size()) /
         static_cast<double>(parts_.batch * parts_.plan.group("cp").size());
}

PipelineBatch Engine::batch_of(const at::Tensor& inputs, const at::Tensor& targets,
                               const at::Tensor& documents) const {
  PipelineBatch batch;
  std::optional<PackedRows> rows;
  if (documents.defined()) {
    rows = packed_rows(documents);
    batch.keywords[kDocuments] = documents;
  }
  if (inputs.dim() > 1) batch.keywords[kLength] = inputs.size(1);
  const auto own = [&](const at::Tensor& whole) {
    return copied_to(device(), parts_.context->cut(whole, rows ? &*rows : nullptr));
  };
  batch.inputs = {own(inputs)};
  batch.target = own(targets);
  if (parts_.balance->capacity() != nullptr) {
    batch.keywords[kPlaces] = places_of(inputs, rows ? &*rows : nullptr);
  }
  return batch;
}

at::Tensor Engine::places_of(const at::Tensor& inputs, const PackedRows* documents) const {
  const int64_t first = rows().begin * inputs.size(1);
  const at::Tensor whole = at::arange(first, first + inputs.numel(), at::kLong);
  return parts_.context->cut(whole.view(inputs.sizes()), documents);
}

double Engine::counted_share(const at::Tensor& targets) const {
  if (!parts_.ignored_target) return 1;
  const at::Tensor own = (targets != *parts_.ignored_target).sum(at::kDouble);
  const at::Tensor counted = all_reduce(own, parts_.plan.group("batch")).wait();
  const int64_t all = targets.numel() / targets.size(0) * parts_.batch;
  return std::max(counted.item<double>(), 1.0) / static_cast<double>(all);
}

at::Tensor Engine::train_step(const at::Tensor& inputs, const at::Tensor& targets,
                              double loss_scale, const at::Tensor& documents) {
  const int64_t step = steps_++;
  PipelineBatch batch = batch_of(inputs, targets, documents);
  // The gradients of a rank are multiplied by its share of the batch.
  parts_.balance->begin_step(loss_scale / share(), device(), [&] {
    Pipeline& pipeline = parts_.whole_batch ? *parts_.whole_batch : parts_.pipeline;
    pipeline.evaluate({.inputs = batch.inputs, .keywords = batch.keywords});
  });
  const UnitRecorder units = begin_record(step);
  parts_.context->record(units);
  for (const auto& stage : parts_.data_parallel) {
    stage->record(units);
    stage->begin_step();
  }
  const double counted = counted_share(targets);
  batch.loss_scale = loss_scale / counted;
  batch.record = units.is_recording();
  batch.step = step;
  const PipelineResult result =
      parts_.graphed ? parts_.graphed->run(parts_.pipeline, batch) : parts_.pipeline.step(batch);
  own_loss_ = result.loss.defined() ? result.loss.detach() : at::Tensor();
  for (const auto& stage : parts_.data_parallel) stage->finish_step();
  parts_.tensor.add();
  parts_.tied.add_gradients();
  balance_ = parts_.balance->end_step();
  if (balance_) drop_idle(balance_->counts.cpu());
  if (units.is_recording()) end_record(result, step, units);
  return mean_over_all(result.loss, counted);
}

// Some ranks have zeros where an expert had no token in the whole batch.
void Engine::drop_idle(const at::Tensor& counts) const {
  const auto tokens = counts.accessor<double, 2>();
  for (const Parameter& parameter : parts_.parameters) {
    if (!parameter.expert) continue;
    const auto& [layer, index, count] = *parameter.expert;
    if (tokens[layer][index] == 0) parameter.tensor.mutable_grad().reset();
  }
}

UnitRecorder Engine::begin_record(int64_t step) const {
  if (!records(step)) return {};
  for (const char* const group : {"loss", "pp"}) barrier(parts_.plan.group(group));
  return UnitRecorder::recording();
}

void Engine::end_record(const PipelineResult& result, int64_t step,
                        const UnitRecorder& units) const {
  const auto end = std::chrono::steady_clock::now();
  const Group& pp = parts_.plan.group("pp");
  if (pp.size() > 1 && parts_.plan.group("loss").rank() == GroupRank{0}) {
    recorder_.pipeline(*result.record);
  }
  std::vector<UnitEvent> events = units.events(result.started, end);
  if (events.empty()) return;
  recorder_.units({.step = step,
                   .rank = pp.global_rank(pp.rank()),
                   .seconds = std::chrono::duration<double>(end - result.started).count(),
                   .events = std::move(events)});
}

at::Tensor Engine::evaluate(const at::Tensor& inputs, const at::Tensor& targets,
                            const at::Tensor& documents) {
  const PipelineBatch batch = batch_of(inputs, targets, documents);
  const PipelineResult result = parts_.graphed ? parts_.graphed->evaluate(parts_.pipeline, batch)
                                               : parts_.pipeline.evaluate(batch);
  return mean_over_all(result.loss, counted_share(targets));
}

at::Tensor Engine::mean_over_all(const at::Tensor& loss, double counted) const {
  const at::TensorOptions scalar = at::device(device()).dtype(at::kDouble);
  const at::Tensor part =
      loss.defined() ? loss.detach().to(scalar) * (share() / counted) : at::zeros({}, scalar);
  const at::Tensor mean = all_reduce(part, parts_.plan.group("loss")).wait();
  return all_reduce(mean, parts_.plan.group("pp")).wait();  // Ranks without the last stage add 0.
}

at::Tensor Engine::grad_norm() const {
  return grad_norm_on(device(), parts_.parameters, parts_.plan.group("norm"));
}

void Engine::record(int64_t every, Recorder recorder) {
  record_every_ = every;
  recorder_ = std::move(recorder);
}

}  // namespace tessera
