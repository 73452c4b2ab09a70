#include "tessera/parallel/pipeline/internal/step_run.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera::pipeline::detail {
namespace {

using enum ActionType;

// Unlike detach(), this does not keep the graph alive.
at::Tensor without_history(const at::Tensor& tensor) {
  return tensor.variable_data();
}

// Inputs of a stage must be leaves, so that it can send their gradients back.
Tensors as_leaves(const Tensors& tensors, const TensorForms& forms) {
  Tensors leaves;
  for (size_t i = 0; i < tensors.size(); ++i) {
    leaves.push_back(without_history(tensors[i]).requires_grad_(forms[i].requires_grad));
  }
  return leaves;
}

}  // namespace

StepRun::StepRun(PipelineCore& core, const PipelineBatch& batch, StepKind kind,
                 const AgreedStep& agreed)
    : core_(core),
      batch_(batch),
      training_(kind == StepKind::kTraining),
      slices_(batch, agreed.rows, core.schedule.microbatches()),
      crossing_(core.crossing(agreed.shapes, agreed.failed_before)),
      announces_(crossing_.empty()) {
  for (const Stage& stage : core.stages) {
    backwards_left_[static_cast<int32_t>(stage.index)] = core.schedule.microbatches();
  }
}

PipelineResult StepRun::run() {
  for (const Action& action : core_.schedule.row(core_.rank())) perform(action);
  core_.messages.finish();
  core_.pool.drop_unused();
  if (failure_) throw_failure();
  return result();
}

// ---- The actions

bool StepRun::is_wanted(const Task& task) const {
  return training_ || task.type == kForward || task.type == kSendForward ||
         task.type == kRecvForward || task.type == kUnshard || task.type == kReshard;
}

void StepRun::perform(const Action& action) {
  if (action.computes()) return perform_compute(action);
  // Sends of a batch come first: the other rank waits for them in its receive.
  for (const bool sends : {true, false}) {
    for (const Task& task : action.tasks()) {
      if (is_send(task.type) == sends && is_wanted(task)) perform_other(task);
    }
  }
}

// The parts of an overlap run one after the other, once the inputs of both are there.
void StepRun::perform_compute(const Action& action) {
  std::vector<Task> tasks;
  std::ranges::copy_if(action.tasks(), std::back_inserter(tasks),
                       [this](const Task& task) { return is_wanted(task); });
  for (const Task& task : tasks) await(task);
  const auto start = Clock::now();
  for (const Task& task : tasks) compute(task);
  if (!tasks.empty()) record(action, start);
}

void StepRun::perform_other(const Task& task) {
  if (is_send(task.type)) return send(task);
  if (is_receive(task.type)) return receive(task);
  const StageHooks& hooks = core_.stage(task.stage).hooks;
  if (task.type == kUnshard) call_hook(hooks.unshard, task);
  if (task.type == kReshard) call_hook(hooks.reshard, task);
  if (task.type == kReduceGrad) call_hook(hooks.reduce_grad, task);
}

void StepRun::record(const Action& action, Clock::time_point start) {
  if (!batch_.record || !training_) return;
  const auto seconds = [this](Clock::time_point time) {
    return std::chrono::duration<double>(time - origin_).count();
  };
  recorded_.push_back({action, {seconds(start), seconds(Clock::now())}});
}

// ---- Failure

void StepRun::guard(const Task& task, const std::function<void()>& body) {
  try {
    body();
  } catch (const CommError&) {
    throw;  // The group is lost: the other ranks cannot be reached.
  } catch (...) {
    if (!failure_) fail({core_.rank(), task}, std::current_exception());
  }
}

void StepRun::attempt(const Task& task, const std::function<void()>& body) {
  if (!failure_) guard(task, body);
}

void StepRun::call_hook(const std::function<void()>& hook, const Task& task) {
  if (hook) guard(task, hook);
}

void StepRun::fail(const StepFailure& failure, std::exception_ptr error) {
  failure_ = failure;
  error_ = std::move(error);
  activations_.clear();
}

void StepRun::throw_failure() const {
  if (error_) std::rethrow_exception(error_);
  throw CommError(concat("rank ", failure_->rank, " of group ", core_.group.name(), " failed at ",
                         to_string(failure_->task), "; see the error of that rank"));
}

// ---- Compute

void StepRun::await(const Task& task) {
  const Place place = place_of(task);
  if (task.type == kForward) {
    auto node = arriving_inputs_.extract(place);
    if (!node.empty()) {
      inputs_[place] = as_leaves(open(std::move(node.mapped())), crossing_[place]);
    }
  } else if (gives_input_grad(task.type)) {
    auto node = arriving_gradients_.extract(place);
    if (!node.empty()) gradients_[place] = open(std::move(node.mapped()));
  }
}

void StepRun::compute(const Task& task) {
  announce_last_backward(task);
  attempt(task, [&] {
    if (task.type == kForward) return forward(task);
    if (task.type == kWeightGrad) return weight_gradients(task);
    backward(task);
  });
}

void StepRun::announce_last_backward(const Task& task) {
  if (!frees_activation(task.type) || --backwards_left_[task.stage] > 0) return;
  call_hook(core_.stage(task.stage).hooks.last_backward, task);
}

BackwardForm StepRun::form_of(const Task& task) const {
  if (!training_) return BackwardForm::kNone;
  if (!core_.split.contains(place_of(task))) return BackwardForm::kWhole;
  return core_.stage(task.stage).defers ? BackwardForm::kDeferred : BackwardForm::kTwoWalks;
}

void StepRun::forward(const Task& task) {
  const Place place = place_of(task);
  const bool first = task.stage == 0;
  Tensors inputs = first ? slices_.inputs(task.microbatch) : take(inputs_, place);
  Activation& activation =
      activations_.try_emplace(place, std::move(inputs), first, form_of(task)).first->second;
  const Keywords keywords = slices_.keywords(task.microbatch);
  const bool last = task.stage == core_.last_stage();
  const bool takes_target = last && has_loss() && !batch_.outputs;
  activation.forward(core_.stage(task.stage),
                     {.stage = task.stage,
                      .microbatch = task.microbatch,
                      .keywords = &keywords,
                      .target = takes_target ? slices_.target(task.microbatch) : at::Tensor()});
  if (last) {
    compute_loss(task, activation);
  } else {
    send_to_next(task, task.stage + 1, activation.outputs());
  }
  if (!training_) return void(activations_.erase(place));
  peak_ = std::max(peak_, static_cast<int64_t>(activations_.size()));
}

bool StepRun::has_loss() const {
  return core_.options.loss && batch_.target.defined();
}

// The forward of the last stage ends with the loss, where its backward starts.
void StepRun::compute_loss(const Task& task, Activation& activation) {
  if (batch_.outputs) {
    for (const at::Tensor& output : activation.outputs()) {
      outputs_[task.microbatch].push_back(without_history(output));
    }
  }
  if (!has_loss()) return;
  const at::Tensor loss = core_.options.loss(activation.outputs(), slices_.target(task.microbatch));
  TSR_CHECK(loss.defined() && loss.numel() == 1, "the loss of microbatch ", task.microbatch,
            loss.defined() ? concat(" has ", loss.numel(), " elements") : " is undefined",
            "; return the mean over the microbatch");
  TSR_CHECK(!training_ || loss.requires_grad(), "the loss of microbatch ", task.microbatch,
            " has no gradient; a step needs a loss that depends on a parameter");
  // A copy: the scalar of LibTorch's mse_loss keeps the memory of all elements before reduction.
  losses_[task.microbatch] = without_history(loss).clone();
  activation.set_loss(loss, slices_.share(task.microbatch) * batch_.loss_scale);
}

void StepRun::backward(const Task& task) {
  const Place place = place_of(task);
  Activation& activation = activations_.at(place);
  Tensors gradients = activation.backward(take(gradients_, place));
  if (task.type == kBackward) activations_.erase(place);
  if (task.stage > 0) send_to_next(task, task.stage - 1, std::move(gradients));
}

void StepRun::weight_gradients(const Task& task) {
  activations_.at(place_of(task)).weight_gradients();
  activations_.erase(place_of(task));
}

Tensors StepRun::take(std::map<Place, Tensors>& map, Place place) {
  auto node = map.extract(place);
  return node.empty() ? Tensors() : std::move(node.mapped());
}

// Passes tensors to a stage of this rank, or keeps them for the send that follows.
void StepRun::send_to_next(const Task& task, int32_t to, Tensors tensors) {
  const bool forward = task.type == kForward;
  if (!core_.has(to)) {
    if (forward) check_forms(forms_of(tensors, training_));
    (forward ? outgoing_ : returning_)[place_of(task)] = std::move(tensors);
    return;
  }
  const Place place{to, task.microbatch};
  if (forward) tensors = as_leaves(tensors, forms_of(tensors, training_));
  (forward ? inputs_ : gradients_)[place] = std::move(tensors);
}

// ---- The result

PipelineResult StepRun::result() {
  PipelineResult result{.peak_activations = peak_, .started = origin_};
  for (const auto& [microbatch, loss] : losses_) {
    const at::Tensor part = loss.mul(slices_.share(microbatch));
    result.loss = result.loss.defined() ? result.loss.add(part) : part;
    result.losses.push_back(loss);
  }
  const size_t num_outputs = outputs_.empty() ? 0 : outputs_.begin()->second.size();
  for (size_t i = 0; i < num_outputs; ++i) {
    Tensors parts;
    for (const auto& [microbatch, outputs] : outputs_) parts.push_back(outputs.at(i));
    result.outputs.push_back(at::cat(parts));
  }
  if (batch_.record && training_) {
    result.record = PipelineRecord{.schedule = core_.schedule.name(),
                                   .shape = core_.schedule.shape(),
                                   .step = batch_.step < 0 ? core_.calls - 1 : batch_.step,
                                   .rank = core_.rank(),
                                   .actions = std::move(recorded_)};
  }
  return result;
}

}  // namespace tessera::pipeline::detail
