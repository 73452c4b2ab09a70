#include "tessera/train/trainer.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/optim/optimizer.h"
#include "tessera/train/batch_tensors.h"
#include "tessera/train/engine.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// On a CPU the whole process counts, on other devices what tensors hold there.
int64_t peak_memory(at::Device device) {
  if (!device.is_cpu()) {
    const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
    return stats.allocated_bytes[0].peak;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

BatchTensors batch_of(const Engine& engine, const Batches& batches, int64_t step) {
  const RowRange rows = engine.rows(batches.options().batch);
  return to_tensors(batches.rows(step, rows.begin, rows.end), engine.device());
}

int64_t tokens_of(const BatchOptions& options) {
  return options.batch * options.seq;
}

// What is timed: all from the old gradients' end to the new weights, and the loss in our hands.
StepMetrics run_step(Engine& engine, Optimizer& optimizer, const BatchTensors& batch, double clip,
                     double rate) {
  const Clock::time_point start = Clock::now();
  optimizer.zero_grad();
  const at::Tensor loss = engine.train_step(batch.inputs, batch.targets);
  const double norm = engine.clip_gradients(clip);
  optimizer.step(rate);
  return {.loss = loss.item<double>(),
          .grad_norm = norm,
          .lr = rate,
          .ms = milliseconds_since(start),
          .mem_bytes = peak_memory(engine.device())};
}

bool is_validated(const TrainerOptions& options, int64_t step) {
  if (options.validate_every == 0) return false;
  return (step + 1) % options.validate_every == 0 || step + 1 == options.steps;
}

void check_finite(const StepMetrics& metrics) {
  if (std::isfinite(metrics.loss)) return;
  throw NumericError(concat("the loss is ", metrics.loss, " at step ", metrics.step,
                            " (learning rate ", metrics.lr, "); lower the learning rate, warm up ",
                            "longer, or clip gradients"));
}

}  // namespace

int64_t train(const TrainerOptions& options, Engine& engine, const Batches& batches,
              Optimizer& optimizer, const TrainerHooks& hooks) {
  check(options.learning_rate);
  for (int64_t step = 0; step < options.steps; ++step) {
    if (hooks.should_stop && hooks.should_stop()) return step;
    const BatchTensors batch = batch_of(engine, batches, step);
    StepMetrics metrics =
        run_step(engine, optimizer, batch, options.clip, options.learning_rate.at(step));
    metrics.step = step;
    metrics.tokens_per_s = static_cast<double>(tokens_of(batches.options())) / metrics.ms * 1e3;
    if (hooks.validate && is_validated(options, step)) metrics.validation_loss = hooks.validate();
    if (hooks.after_step) hooks.after_step(metrics);
    check_finite(metrics);
  }
  return options.steps;
}

double mean_loss(Engine& engine, const Batches& batches, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const BatchTensors batch = batch_of(engine, batches, i);
    sum += engine.evaluate(batch.inputs, batch.targets).item<double>();
  }
  return sum / static_cast<double>(count);
}

}  // namespace tessera
