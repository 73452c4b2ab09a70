#pragma once

#include <cstdint>
#include <functional>

#include "tessera/base/export.h"
#include "tessera/optim/learning_rate.h"
#include "tessera/run/metrics.h"

namespace tessera TSR_API {

class BatchSource;
class Engine;
class Optimizer;

struct TrainerOptions {
  int64_t steps = 0;       // The number of the step after the last.
  int64_t first_step = 0;  // Where a run goes on that has done some.
  LearningRate learning_rate = {};
  double clip = 0;             // The largest gradient norm; 0: gradients stay as they are.
  int64_t validate_every = 0;  // Steps; 0: never. The last step is validated, too.
};

/// Who is told and asked while a run goes on; what is empty is not.
struct TrainerHooks {
  std::function<void(const StepMetrics&)> after_step = {};
  std::function<double()> validate = {};   // The validation loss, on all ranks alike.
  std::function<bool()> should_stop = {};  // Before each step.
};

/// The loop: each step reads a batch, has the engine compute its gradients, clips them and updates
/// the parameters. Returns the number of the step after the last one done.
///
/// A step whose loss or gradient norm is not finite raises NumericError, on all ranks alike, before
/// it changes anything: parameters and optimizer state are those after the last good step.
/// `after_step` is called for it first.
int64_t train(const TrainerOptions& options, Engine& engine, const BatchSource& batches,
              Optimizer& optimizer, const TrainerHooks& hooks = {});

/// The mean loss over the first `count` batches, without gradients.
double mean_loss(Engine& engine, const BatchSource& batches, int64_t count);

}  // namespace tessera
