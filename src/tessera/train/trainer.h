#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/optim/learning_rate.h"
#include "tessera/run/metrics.h"

namespace tessera TSR_API {

class BatchSource;
class Engine;
class GradScaler;
class Optimizer;
class SpikeDetector;
class WeightAverage;

/// What happens after a step that is not good: its loss or gradient norm is non-finite, or a spike.
/// It is the same on all ranks, since both values are. Such a step changes nothing.
enum class NonFinite {
  kStop,      // The run ends with a NumericError.
  kSkip,      // Training continues with the next batch.
  kRollback,  // Training continues with the next batch, from the state of an earlier step.
};

/// Settings of the training loop.
struct TrainerOptions {
  int64_t steps = 0;                // Steps of the whole run.
  int64_t first_step = 0;           // The step at which a resumed run continues.
  LearningRate learning_rate = {};  // Of each step.
  double clip = 0;                  // Largest gradient norm; 0: no clipping.
  int64_t validate_every = 0;  // Steps between validations; 0: never. Also after the last step.
  /// How many steps the host queues on a GPU before it waits for their numbers. Losses and weights
  /// do not depend on it, unless forward passes of the model draw random numbers or change buffers:
  /// steps behind one that is not finite are repeated. With spikes, a scaler or an average the host
  /// waits after each step. If a batch cannot be read, `after_step` is not called for the steps
  /// that were queued before it in the same round.
  int64_t sync_every = 1;
  NonFinite non_finite = NonFinite::kStop;  // After a step that is not good.
  int64_t most_skips = 20;                  // Skipped steps in a row; one more ends the run.
  int64_t most_rollbacks = 3;               // To the same step; one more ends the run.
  SpikeDetector* spikes = nullptr;          // Null: no step is a spike.
  GradScaler* scaler = nullptr;      // The loss scale of float16; null: none. Non-finite steps are
                                     // skipped then.
  WeightAverage* average = nullptr;  // Updated with the weights; null: none.
};

/// Callbacks; an empty one is not called.
struct TrainerHooks {
  /// Before the batch of a step is asked for; again if the step is repeated, since it or one that
  /// was queued together with it and before it was non-finite.
  std::function<void(int64_t step)> before_step = {};
  /// After each step, good or not. With TrainerOptions::sync_every, the next steps may be done.
  std::function<void(const StepMetrics&)> after_step = {};
  /// Whether no other step may be queued together with this one, e.g. because `after_step` saves
  /// the weights. It is the same on all ranks.
  std::function<bool(int64_t step)> is_alone = {};
  std::function<double()> validate = {};  // Returns the validation loss, the same on all ranks.
  /// For NonFinite::kRollback: restores the state of an earlier step, and returns the number of
  /// steps done before it; nothing if there is none.
  std::function<std::optional<int64_t>()> roll_back = {};
  std::function<bool()> should_stop = {};  // Called before steps are queued.
};

/// The training loop: each step reads a batch, computes its gradients with the engine, clips them
/// and updates the parameters. Returns the number of the next step.
///
/// A step that is not good (StepMetrics::is_good()) changes no parameter and no optimizer state, on
/// any rank. If it ends the run, all ranks throw the same NumericError, which names the first rank
/// with non-finite values; `after_step` is called first.
int64_t train(const TrainerOptions& options, Engine& engine, const BatchSource& batches,
              Optimizer& optimizer, const TrainerHooks& hooks = {});

/// **Collective.** The mean loss over all targets of the first `count` batches, without gradients.
/// Ignored targets do not count.
double mean_loss(Engine& engine, const BatchSource& batches, int64_t count,
                 const std::function<void(int64_t batch)>& after_batch = {});

}  // namespace tessera
