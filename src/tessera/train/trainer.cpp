#include "tessera/train/trainer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/optim/clip.h"
#include "tessera/optim/grad_scaler.h"
#include "tessera/optim/optimizer.h"
#include "tessera/optim/spikes.h"
#include "tessera/optim/weight_average.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/engine.h"
#include "tessera/train/host_numbers.h"
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

// The loss of the whole batch, from this rank's rows.
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

// What the optimizer multiplies gradients by: clips them and undoes the loss scale. It is NaN if
// the loss or the norm is non-finite, so that the device itself leaves the weights as they are.
at::Tensor gradient_factor(const at::Tensor& loss, const at::Tensor& norm, double clip,
                           double scale) {
  const at::Tensor factor = clip > 0 ? clip_factor(norm, clip) : at::ones_like(norm);
  const at::Tensor zero_or_nan = (loss + norm) * 0;
  return factor / scale + zero_or_nan;
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

// A step that is not good changes nothing. The device decides that for non-finite numbers, so the
// host queues the update before it waits for them: a GPU makes the update while the host prepares
// the next step, whose time holds it. Only the host can find a spike, and then waits earlier.
StepMetrics run_step(Engine& engine, Optimizer& optimizer, const BatchTensors& batch,
                     const TrainerOptions& options, double rate) {
  const SentBytes sent_before = engine.sent_bytes();
  const double scale = options.scaler == nullptr ? 1 : options.scaler->scale();
  optimizer.zero_grad();
  const at::Tensor loss = engine.train_step(batch.inputs, batch.targets, scale, batch.documents);
  const at::Tensor norm = engine.grad_norm() / scale;
  const HostNumbers numbers({loss, norm});
  StepMetrics metrics{.lr = rate};
  const auto wait = [&] {
    metrics.loss = numbers[0];
    metrics.grad_norm = numbers[1];
  };
  if (looks_for_spikes(options)) {
    wait();
    metrics.spike = !spike_in(options, metrics).empty();
  }
  if (!metrics.spike) optimizer.step(rate, gradient_factor(loss, norm, options.clip, scale));
  wait();
  if (engine.balance()) add_balance(*engine.balance(), metrics);
  if (metrics.is_good()) after_update(options, metrics);
  if (options.scaler != nullptr) {
    metrics.loss_scale = scale;
    options.scaler->update(is_finite(metrics));
  }
  metrics.mem_bytes = peak_memory(engine.device());
  metrics.sent_bytes = sent_since(sent_before, engine);
  return metrics;
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
  if (options.validate_every == 0) return false;
  return (step + 1) % options.validate_every == 0 || step + 1 == options.steps;
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

}  // namespace

int64_t train(const TrainerOptions& options, Engine& engine, const BatchSource& batches,
              Optimizer& optimizer, const TrainerHooks& hooks) {
  check(options.learning_rate);
  check_batches(engine, batches);
  BadSteps bad_steps(options, hooks);
  for (int64_t step = options.first_step; step < options.steps; ++step) {
    if (hooks.should_stop && hooks.should_stop()) return step;
    if (hooks.before_step) hooks.before_step(step);
    const Clock::time_point start = Clock::now();
    const BatchTensors batch = batches.rows(step, engine.rows());
    StepMetrics metrics =
        run_step(engine, optimizer, batch, options, options.learning_rate.at(step));
    metrics.step = step;
    metrics.ms = milliseconds_since(start);
    metrics.tokens_per_s = tokens_of(batch, batches.batch()) / metrics.ms * 1e3;
    if (step == options.first_step) metrics.held_bytes = held_bytes(engine, optimizer);
    bad_steps.decide(metrics);
    const bool continues = metrics.is_good() || metrics.skipped || metrics.rolled_back_to;
    if (continues && hooks.validate && is_validated(options, step)) {
      metrics.validation_loss = hooks.validate();
    }
    if (hooks.after_step) hooks.after_step(metrics);
    bad_steps.check(metrics, engine);
  }
  return options.steps;
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
