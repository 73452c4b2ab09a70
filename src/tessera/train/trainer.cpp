#include "tessera/train/trainer.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/optim/clip.h"
#include "tessera/optim/grad_scaler.h"
#include "tessera/optim/optimizer.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/engine.h"

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

BatchTensors batch_of(const Engine& engine, const BatchSource& batches, int64_t step) {
  const auto [inputs, targets, documents] = batches.rows(step, engine.rows());
  return {.inputs = inputs.to(engine.device()),
          .targets = targets.to(engine.device()),
          .documents = documents};
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

// Waits for the device; a CPU is synchronous.
void synchronize(at::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(index_of(device));
}

bool is_finite(const StepMetrics& metrics) {
  return std::isfinite(metrics.loss) && std::isfinite(metrics.grad_norm);
}

// What the optimizer multiplies gradients by: clips them and undoes the loss scale.
double gradient_factor(double norm, double clip, double scale) {
  return (clip > 0 ? clip_factor(norm, clip) : 1) / scale;
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
  const at::Tensor tokens = balance.counts.sum(0);
  const at::Tensor load = (tokens / tokens.mean()).cpu();
  metrics.expert_load.assign(load.const_data_ptr<double>(),
                             load.const_data_ptr<double>() + load.numel());
  if (!balance.dropped.defined()) return;
  metrics.dropped_share = (balance.dropped.sum() / balance.counts.sum()).item<double>();
}

// The time is from zero_grad() until the weights are updated and the loss is on the host. A
// non-finite step ends before the update. The norm waits for the device anyway, so checking the
// loss before the update costs nothing.
StepMetrics run_step(Engine& engine, Optimizer& optimizer, const BatchTensors& batch,
                     const TrainerOptions& options, double rate) {
  const Clock::time_point start = Clock::now();
  const SentBytes sent_before = engine.sent_bytes();
  const double scale = options.scaler == nullptr ? 1 : options.scaler->scale();
  optimizer.zero_grad();
  const at::Tensor loss = engine.train_step(batch.inputs, batch.targets, scale, batch.documents);
  StepMetrics metrics{.grad_norm = engine.grad_norm() / scale, .lr = rate};
  metrics.loss = loss.item<double>();
  if (engine.balance()) add_balance(*engine.balance(), metrics);
  if (is_finite(metrics)) {
    optimizer.step(rate, gradient_factor(metrics.grad_norm, options.clip, scale));
    synchronize(engine.device());
  }
  if (options.scaler != nullptr) {
    metrics.loss_scale = scale;
    options.scaler->update(is_finite(metrics));
  }
  metrics.ms = milliseconds_since(start);
  metrics.mem_bytes = peak_memory(engine.device());
  metrics.sent_bytes = sent_since(sent_before, engine);
  return metrics;
}

bool is_validated(const TrainerOptions& options, int64_t step) {
  if (options.validate_every == 0) return false;
  return (step + 1) % options.validate_every == 0 || step + 1 == options.steps;
}

// Ends a run with a non-finite step, which has changed nothing.
void refuse(const StepMetrics& metrics, const Parameters& parameters) {
  if (std::isfinite(metrics.loss)) clip_grads_(parameters, metrics.grad_norm, 1);  // Names them.
  throw NumericError(concat("the loss is ", metrics.loss, " at step ", metrics.step,
                            " (learning rate ", metrics.lr, "); lower the learning rate, warm up ",
                            "longer, or clip gradients. The weights are those after step ",
                            metrics.step - 1));
}

[[noreturn]] void refuse_more_skips(const StepMetrics& metrics, int64_t skips) {
  throw NumericError(concat(
      "the last ", skips, " steps were skipped, because their loss or gradients were non-finite ",
      "(step ", metrics.step, ": loss ", metrics.loss, ", gradient norm ", metrics.grad_norm,
      metrics.loss_scale ? concat(", loss scale ", *metrics.loss_scale) : "",
      "); lower the learning rate, or check the data. The weights are those after step ",
      metrics.step - skips));
}

}  // namespace

int64_t train(const TrainerOptions& options, Engine& engine, const BatchSource& batches,
              Optimizer& optimizer, const TrainerHooks& hooks) {
  check(options.learning_rate);
  check_batches(engine, batches);
  int64_t skips = 0;  // In a row.
  for (int64_t step = options.first_step; step < options.steps; ++step) {
    if (hooks.should_stop && hooks.should_stop()) return step;
    const BatchTensors batch = batch_of(engine, batches, step);
    StepMetrics metrics =
        run_step(engine, optimizer, batch, options, options.learning_rate.at(step));
    metrics.step = step;
    metrics.tokens_per_s = tokens_of(batch, batches.batch()) / metrics.ms * 1e3;
    const bool good = is_finite(metrics);
    metrics.skipped = !good && options.non_finite == NonFinite::kSkip;
    if ((good || metrics.skipped) && hooks.validate && is_validated(options, step)) {
      metrics.validation_loss = hooks.validate();
    }
    if (hooks.after_step) hooks.after_step(metrics);
    if (!good && !metrics.skipped) refuse(metrics, engine.parameters());
    skips = metrics.skipped ? skips + 1 : 0;
    if (skips > options.most_skips) refuse_more_skips(metrics, skips);
  }
  return options.steps;
}

double mean_loss(Engine& engine, const BatchSource& batches, int64_t count) {
  check_batches(engine, batches);
  double sum = 0;
  double weight = 0;
  for (int64_t i = 0; i < count; ++i) {
    const BatchTensors batch = batch_of(engine, batches, i);
    const double share = engine.counted_share(batch.targets);
    sum += share * engine.evaluate(batch.inputs, batch.targets, batch.documents).item<double>();
    weight += share;
  }
  return sum / weight;
}

}  // namespace tessera
