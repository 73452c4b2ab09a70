#include "tessera/train/parallel_engine.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/layer/tokens.h"
#include "tessera/optim/clip.h"

namespace tessera {
namespace {

at::Tensor loss_of(const Tensors& outputs, const at::Tensor& target) {
  return token_loss(outputs.at(0), target);
}

}  // namespace

ParallelEngine::ParallelEngine(LlamaStages stages, const Schedule& schedule,
                               const WorldHandle& world, const DeviceMesh& mesh, int64_t batch)
    : stages_(std::move(stages)),
      mesh_(mesh),
      world_(world.group()),
      tied_(stages_, schedule, world, mesh),
      batch_(batch),
      held_(stages_.parts.size()) {
  TSR_CHECK(batch >= mesh.size("dp"), "a batch of ", batch, " rows is too small for ",
            mesh.size("dp"), " replicas, each of which takes at least 1");
  std::vector<Stage> made;
  for (size_t i = 0; i < stages_.parts.size(); ++i) {
    ddp_.emplace_back(DdpTensors{.parameters = stages_.parts[i]->named_parameters()},
                      mesh.get_group("dp"));
    ddp_.back().set_share(share());
    made.push_back(make_stage(i));
  }
  pipeline_.emplace(std::move(made), schedule, mesh.get_group("pp"),
                    PipelineOptions{.loss = loss_of, .device = device()});
}

Stage ParallelEngine::make_stage(size_t i) {
  const auto forward = [part = stages_.parts[i]](const Tensors& inputs, const StagePass& pass) {
    return Tensors{part->forward(inputs.at(0), {.deferred = pass.deferred})};
  };
  return {.index = stages_.indices[i], .forward = forward, .defers = true, .hooks = hooks_of(i)};
}

StageHooks ParallelEngine::hooks_of(size_t i) {
  if (mesh_.size("pp") == 1) return {.last_backward = [this, i] { held_[i].reset(); }};
  return {.reduce_grad = [this, i] {
    held_[i].reset();
    ddp_[i].start_reduce();
  }};
}

RowRange ParallelEngine::rows(int64_t batch) const {
  const int64_t replicas = mesh_.size("dp");
  const int64_t replica = mesh_.get_local_rank("dp").value;
  return {batch * replica / replicas, batch * (replica + 1) / replicas};
}

double ParallelEngine::share() const {
  return static_cast<double>(rows(batch_).size()) / static_cast<double>(batch_);
}

at::Tensor ParallelEngine::train_step(const at::Tensor& inputs, const at::Tensor& targets) {
  for (size_t i = 0; i < ddp_.size(); ++i) held_[i].emplace(ddp_[i].no_sync());
  const int64_t step = steps_++;
  const bool recorded = record_every_ > 0 && (step + 1) % record_every_ == 0;
  const PipelineResult result =
      pipeline_->step({.inputs = {inputs}, .target = targets, .record = recorded, .step = step});
  if (mesh_.size("pp") > 1) {
    for (const Ddp& ddp : ddp_) ddp.finish_reduce();
  }
  tied_.add_gradients();
  if (result.record && mesh_.get_local_rank("dp") == GroupRank{0}) recorder_(*result.record);
  return mean_over_all(result.loss);
}

at::Tensor ParallelEngine::evaluate(const at::Tensor& inputs, const at::Tensor& targets) {
  return mean_over_all(pipeline_->evaluate({.inputs = {inputs}, .target = targets}).loss);
}

// Ranks without the last stage have no loss, and the others that of their rows.
at::Tensor ParallelEngine::mean_over_all(const at::Tensor& loss) const {
  const at::TensorOptions scalar = at::device(device()).dtype(at::kDouble);
  const at::Tensor part =
      loss.defined() ? loss.detach().to(scalar) * share() : at::zeros({}, scalar);
  return all_reduce(part, world_).wait();
}

double ParallelEngine::grad_norm() {
  NamedParameters counted = parameters();
  std::erase_if(counted, [&](const NamedParameter& p) { return tied_.is_copy(p.tensor); });
  // A rank without gradients has its zero on the CPU, where the others do not look for it.
  const at::Tensor squares = grad_square_sum(counted).to(device());
  return std::sqrt(all_reduce(squares, mesh_.get_group("pp")).wait().item<double>());
}

void ParallelEngine::record(int64_t every, Recorder recorder) {
  record_every_ = every;
  recorder_ = std::move(recorder);
}

void ParallelEngine::save(const std::string& folder) const {
  save_llama_stages(stages_, tied_, mesh_, folder);
}

}  // namespace tessera
