#include "tessera/train/trainer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/comm/host_numbers.h"
#include "tessera/optim/clip.h"
#include "tessera/optim/grad_scaler.h"
#include "tessera/optim/optimizer.h"
#include "tessera/optim/spikes.h"
#include "tessera/optim/weight_average.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/due.h"
#include "tessera/train/engine.h"
#include "tessera/train/non_finite.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// "cuda" is the current GPU.
c10::DeviceIndex index_of(at::Device device) {
  if (device.has_index()) return device.index();
  return c10::impl::VirtualGuardImpl(device.type()).getDevice().index();
}

// On a CPU the memory of the process, on other devices that of the tensors.
int64_t peak_memory(at::Device device) {
  if (!device.is_cpu()) {
    const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(index_of(device));
    return stats.allocated_bytes[0].peak;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int64_t bytes_in(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
}

void check_batches(const Engine& engine, const BatchSource& batches) {
  TSR_CHECK(batches.batch() == engine.batch(), "the batches have ", batches.batch(),
            " rows, but the engine was composed for ", engine.batch(), "; use the same number");
}

// Of the whole batch, from this rank's rows.
double tokens_of(const BatchTensors& own, int64_t batch) {
  return static_cast<double>(own.inputs.numel()) / static_cast<double>(own.inputs.size(0)) *
         static_cast<double>(batch);
}

bool is_finite(const StepMetrics& metrics) {
  return std::isfinite(metrics.loss) && std::isfinite(metrics.grad_norm);
}

std::string spike_in(const TrainerOptions& options, const StepMetrics& metrics) {
  if (options.spikes == nullptr || !is_finite(metrics)) return "";
  return options.spikes->find(metrics.loss, metrics.grad_norm);
}

void after_update(const TrainerOptions& options, const StepMetrics& metrics) {
  if (options.average != nullptr) options.average->update();
  if (options.spikes != nullptr) options.spikes->add(metrics.loss, metrics.grad_norm);
}

bool looks_for_spikes(const TrainerOptions& options) {
  return options.spikes != nullptr && options.spikes->is_on();
}

// Whether the next step depends on what the host does after this one.
bool decides_after_each_step(const TrainerOptions& options) {
  return looks_for_spikes(options) || options.scaler != nullptr || options.average != nullptr;
}

// What the optimizer multiplies gradients by: clips them and undoes the loss scale.
at::Tensor gradient_factor(const at::Tensor& norm, double clip, double scale) {
  const at::Tensor factor = clip > 0 ? clip_factor(norm, clip) : at::ones_like(norm);
  return factor / scale;
}

// Sent since `before`, by groups that sent anything.
SentBytes sent_since(const SentBytes& before, const Engine& engine) {
  SentBytes sent;
  for (const auto& [group, bytes] : engine.sent_bytes()) {
    const auto known = before.find(group);
    const int64_t since = bytes - (known == before.end() ? 0 : known->second);
    if (since > 0) sent[group] = since;
  }
  return sent;
}

void add_balance(const BalanceResult& balance, StepMetrics& metrics) {
  metrics.aux_loss = balance.loss;
  if (balance.z_loss != 0) metrics.z_loss = balance.z_loss;
  const at::Tensor tokens = balance.counts.sum(0);
  const at::Tensor load = (tokens / tokens.mean()).cpu();
  metrics.expert_load.assign(load.const_data_ptr<double>(),
                             load.const_data_ptr<double>() + load.numel());
  if (!balance.dropped.defined()) return;
  metrics.dropped_share = (balance.dropped.sum() / balance.counts.sum()).item<double>();
}

/// A step that the device has to do, and may not have done yet.
struct QueuedStep {
  StepMetrics metrics;  // Without loss and norm.
  HostNumbers numbers;  // Loss and norm.
  double tokens;        // Over all ranks.
};

void read_numbers(QueuedStep& step) {
  const std::vector<double> numbers = step.numbers.wait("the loss of a step");
  step.metrics.loss = numbers[0];
  step.metrics.grad_norm = numbers[1];
}

// Gradients are there until the next step begins.
NamedBytes held_bytes(const Engine& engine, const Optimizer& optimizer) {
  int64_t parameters = 0;
  int64_t gradients = 0;
  for (const Parameter& parameter : engine.parameters()) {
    parameters += bytes_in(parameter.tensor);
    gradients += bytes_in(parameter.tensor.grad());
  }
  int64_t states = 0;
  for (const OptimizerState& state : optimizer.state()) states += bytes_in(state.tensor);
  return {{"parameters", parameters}, {"gradients", gradients}, {"optimizer", states}};
}

bool is_validated(const TrainerOptions& options, int64_t step) {
  const bool is_last = options.validate_every > 0 && step + 1 == options.steps;
  return is_last || is_due(step, options.validate_every);
}

std::string where(const StepMetrics& metrics) {
  return concat("step ", metrics.step, ": loss ", metrics.loss, ", gradient norm ",
                metrics.grad_norm, ", learning rate ", metrics.lr,
                metrics.loss_scale ? concat(", loss scale ", *metrics.loss_scale) : "");
}

// Ends a run with a step that is not good, which has changed nothing.
[[noreturn]] void refuse(const TrainerOptions& options, const StepMetrics& metrics,
                         const Engine& engine) {
  const std::string cause =
      metrics.spike ? spike_in(options, metrics) : first_non_finite(engine, metrics.loss);
  throw NumericError(concat(cause, " (", where(metrics), "); lower the learning rate, warm up ",
                            "longer, clip gradients, or check the data. The weights are those ",
                            "after step ", metrics.step - 1));
}

/// What happens after steps that are not good.
class BadSteps {
 public:
  BadSteps(const TrainerOptions& options, const TrainerHooks& hooks)
      : options_(options), hooks_(hooks) {}

  /// Decides after each step, and restores an earlier state if that is the decision.
  void decide(StepMetrics& metrics) const {
    if (metrics.is_good()) return;
    const bool lowers_scale = options_.scaler != nullptr && !is_finite(metrics);
    if (lowers_scale || options_.non_finite == NonFinite::kSkip) {
      metrics.skipped = true;
    } else if (options_.non_finite == NonFinite::kRollback && hooks_.roll_back) {
      metrics.rolled_back_to = hooks_.roll_back();
    }
  }

  /// Ends the run if the step does.
  void check(const StepMetrics& metrics, const Engine& engine) {
    skips_ = metrics.skipped ? skips_ + 1 : 0;
    if (skips_ > options_.most_skips) refuse_more_skips(metrics);
    if (metrics.rolled_back_to) return count(metrics);
    if (!metrics.is_good() && !metrics.skipped) refuse(options_, metrics, engine);
  }

 private:
  void count(const StepMetrics& metrics) {
    rollbacks_ = metrics.rolled_back_to == last_ ? rollbacks_ + 1 : 1;
    last_ = metrics.rolled_back_to;
    if (rollbacks_ <= options_.most_rollbacks) return;
    throw NumericError(concat("the run has rolled back ", rollbacks_, " times to the state after ",
                              *last_, " steps (", where(metrics),
                              "); lower the learning rate, or check the data"));
  }

  [[noreturn]] void refuse_more_skips(const StepMetrics& metrics) const {
    throw NumericError(concat("the last ", skips_, " steps were skipped, because their loss or ",
                              "gradients were non-finite or spikes (", where(metrics),
                              "); lower the learning rate, or check the data. The weights are ",
                              "those after step ", metrics.step - skips_));
  }

  const TrainerOptions& options_;
  const TrainerHooks& hooks_;
  int64_t skips_ = 0;                           // In a row.
  int64_t rollbacks_ = 0;                       // To the same step.
  std::optional<int64_t> last_ = std::nullopt;  // To which the run last rolled back.
};

/// One run of the loop.
class Loop {
 public:
  Loop(const TrainerOptions& options, Engine& engine, const BatchSource& batches,
       Optimizer& optimizer, const TrainerHooks& hooks)
      : options_(options),
        engine_(engine),
        batches_(batches),
        optimizer_(optimizer),
        hooks_(hooks),
        bad_steps_(options, hooks) {}

  /// Returns the number of the next step.
  int64_t run() {
    int64_t step = options_.first_step;
    while (step < options_.steps && !(hooks_.should_stop && hooks_.should_stop())) {
      step = run_together({step, end_of_queue(step)});
    }
    return step;
  }

 private:
  bool is_alone(int64_t step) const {
    return step == repeated_ || engine_.records(step) || is_validated(options_, step) ||
           (hooks_.is_alone && hooks_.is_alone(step));
  }

  // The end of the steps that are queued together with this first one.
  int64_t end_of_queue(int64_t first) const {
    int64_t end = first + 1;
    if (decides_after_each_step(options_) || is_alone(first)) return end;
    const int64_t last = first + std::min(options_.sync_every, options_.steps - first);
    while (end < last && !is_alone(end)) ++end;
    return end;
  }

  // Queues these steps, and waits for them. Returns the next step. If one of several steps is not
  // finite, that is the same one by itself: then it is handled as any other.
  int64_t run_together(Span steps) {
    const Clock::time_point start = Clock::now();
    zero_or_nan_ = at::zeros({}, at::device(engine_.device()).dtype(at::kDouble));
    std::vector<QueuedStep> queued;
    for (int64_t step = steps.begin; step < steps.end; ++step) queued.push_back(queue(step));
    for (QueuedStep& step : queued) read_numbers(step);
    const double ms = milliseconds_since(start) / static_cast<double>(steps.size());
    for (QueuedStep& step : queued) {
      if (queued.size() > 1 && !is_finite(step.metrics)) return repeat(step.metrics.step);
      step.metrics.ms = ms;
      step.metrics.tokens_per_s = step.tokens / ms * 1e3;
      finish(step.metrics);
    }
    return steps.end;
  }

  int64_t repeat(int64_t step) {
    repeated_ = step;
    engine_.set_step(step);
    return step;
  }

  QueuedStep queue(int64_t step) {
    if (hooks_.before_step) hooks_.before_step(step);
    const BatchTensors batch = batches_.rows(step, engine_.rows());
    QueuedStep queued = queue_batch(batch, options_.learning_rate.at(step));
    queued.metrics.step = step;
    if (step == options_.first_step) queued.metrics.held_bytes = held_bytes(engine_, optimizer_);
    return queued;
  }

  // A step that is not good changes nothing, and neither does a step that was queued after it. The
  // device decides that for non-finite numbers, so the host queues the update before it waits for
  // them: a GPU makes the update while the host prepares the next step. Only the host can find a
  // spike, and then waits earlier.
  QueuedStep queue_batch(const BatchTensors& batch, double rate) {
    const SentBytes sent_before = engine_.sent_bytes();
    const double scale = options_.scaler == nullptr ? 1 : options_.scaler->scale();
    optimizer_.zero_grad();
    const at::Tensor loss = engine_.train_step(batch.inputs, batch.targets, scale, batch.documents);
    const at::Tensor norm = engine_.grad_norm() / scale;
    zero_or_nan_ += (loss + norm) * 0;
    QueuedStep step{.metrics = {.lr = rate},
                    .numbers = HostNumbers(at::stack({loss, norm}), engine_.plan().group("loss")),
                    .tokens = tokens_of(batch, batches_.batch())};
    if (looks_for_spikes(options_)) {
      read_numbers(step);
      step.metrics.spike = !spike_in(options_, step.metrics).empty();
    }
    if (!step.metrics.spike) {
      optimizer_.step(rate, gradient_factor(norm, options_.clip, scale) + zero_or_nan_);
    }
    if (engine_.balance()) add_balance(*engine_.balance(), step.metrics);
    if (options_.scaler != nullptr) step.metrics.loss_scale = scale;
    step.metrics.mem_bytes = peak_memory(engine_.device());
    step.metrics.sent_bytes = sent_since(sent_before, engine_);
    return step;
  }

  // What the host does when it knows the numbers.
  void finish(StepMetrics& metrics) {
    if (metrics.is_good()) after_update(options_, metrics);
    if (options_.scaler != nullptr) options_.scaler->update(is_finite(metrics));
    bad_steps_.decide(metrics);
    const bool continues = metrics.is_good() || metrics.skipped || metrics.rolled_back_to;
    if (continues && hooks_.validate && is_validated(options_, metrics.step)) {
      metrics.validation_loss = hooks_.validate();
    }
    if (hooks_.after_step) hooks_.after_step(metrics);
    bad_steps_.check(metrics, engine_);
  }

  const TrainerOptions& options_;
  Engine& engine_;
  const BatchSource& batches_;
  Optimizer& optimizer_;
  const TrainerHooks& hooks_;
  BadSteps bad_steps_;
  at::Tensor zero_or_nan_;  // NaN after a queued step that is not finite.
  int64_t repeated_ = -1;   // The step that is repeated by itself; -1: none was.
};

}  // namespace

int64_t train(const TrainerOptions& options, Engine& engine, const BatchSource& batches,
              Optimizer& optimizer, const TrainerHooks& hooks) {
  check(options.learning_rate);
  check_batches(engine, batches);
  TSR_CHECK(options.sync_every >= 1, "sync_every must be ≥ 1, but is ", options.sync_every);
  engine.set_step(options.first_step);
  return Loop(options, engine, batches, optimizer, hooks).run();
}

double mean_loss(Engine& engine, const BatchSource& batches, int64_t count,
                 const std::function<void(int64_t batch)>& after_batch) {
  check_batches(engine, batches);
  double sum = 0;
  double weight = 0;
  for (int64_t i = 0; i < count; ++i) {
    const BatchTensors batch = batches.rows(i, engine.rows());
    const double share = engine.counted_share(batch.targets);
    sum += share * engine.evaluate(batch.inputs, batch.targets, batch.documents).item<double>();
    weight += share;
    if (after_batch) after_batch(i);
  }
  return sum / weight;
}

}  // namespace tessera
