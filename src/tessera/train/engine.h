#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/sent_bytes.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/format/unit_record.h"
#include "tessera/mesh/realize.h"
#include "tessera/parallel/context/context_parallel.h"
#include "tessera/parallel/data_parallel.h"
#include "tessera/parallel/pipeline/pipeline.h"
#include "tessera/parallel/tensor/tensor_gradients.h"
#include "tessera/tensor/parameter.h"
#include "tessera/topology/box.h"
#include "tessera/train/due.h"
#include "tessera/train/graphed_step.h"
#include "tessera/train/tied_parameters.h"
#include "tessera/train/train_balance.h"

namespace tessera TSR_API {

/// This rank's rows of a batch that the ranks of a group share.
Span rows_of(int64_t batch, const Group& sharers);

/// Keyword of the pipeline's stages: the positions of a whole row.
inline constexpr const char* kLength = "length";
/// Keyword of the stages: BatchTensors::documents.
inline constexpr const char* kDocuments = "documents";
/// Keyword of the stages: Pass::places, on the CPU.
inline constexpr const char* kPlaces = "places";

/// The parts of an engine; made by compose().
struct EngineParts {
  RealizedPlan plan;       // With this rank's groups.
  Parameters parameters;   // Updated by this rank's optimizer.
  Parameters buffers;      // Unit::buffers.
  TensorGradients tensor;  // Sums gradients of parameters that tp ranks replicate.
  std::shared_ptr<ContextParallel> context;  // Cuts sequences; not null, even if cp is 1.
  std::vector<std::shared_ptr<DataParallel>> data_parallel;  // One per stage of this rank.
  TiedParameters tied;                    // Parameters that units of different stages share.
  std::shared_ptr<TrainBalance> balance;  // Of experts; not null, even in a dense model.
  Pipeline pipeline;                      // Runs this rank's stages; also if pp is 1.
  std::optional<Pipeline> whole_batch;  // Runs all rows of this rank at once, if routers need that.
  std::optional<GraphedStep> graphed;   // Runs the steps of `pipeline`, if they are recorded.
  int64_t batch;                        // Rows per global batch.
  std::optional<int64_t> ignored_target;  // Model::ignored_target.
  at::Device device;                      // Of compute.
};

/// A distributed model, of which this process holds a part, for the training loop. The loop itself
/// knows nothing about ranks, and the engine nothing about the model.
///
/// One thread at a time.
class Engine {
 public:
  explicit Engine(EngineParts parts);

  /// The rows of a global batch that this rank needs.
  Span rows() const;
  /// Rows per global batch.
  int64_t batch() const { return parts_.batch; }
  /// The device of the model, the loss and the norm. Inputs and targets may be on the CPU.
  at::Device device() const { return parts_.device; }

  /// **Collective.** Forward and backward of one global batch: accumulates the gradient of its mean
  /// loss, times `loss_scale`, in parameters(). Returns the loss without the scale, a float64
  /// scalar on device(), the same on all ranks.
  ///
  /// `inputs` and `targets` are this rank's rows(), whole: with context parallelism, the engine
  /// takes this rank's positions. From the CPU it copies them itself, and then the host does not
  /// wait for a GPU here, unless the model has experts. `documents` is BatchTensors::documents; it
  /// may be undefined.
  at::Tensor train_step(const at::Tensor& inputs, const at::Tensor& targets, double loss_scale = 1,
                        const at::Tensor& documents = {});
  /// This rank's own loss in the last training step; undefined without the last stage.
  at::Tensor own_loss() const { return own_loss_; }
  /// The balance of the last training step; none in a dense model.
  const std::optional<BalanceResult>& balance() const& { return balance_; }
  std::optional<BalanceResult> balance() && { return std::move(balance_); }
  /// **Collective.** The mean loss of a global batch, without gradients.
  at::Tensor evaluate(const at::Tensor& inputs, const at::Tensor& targets,
                      const at::Tensor& documents = {});
  /// **Collective.** The share of the targets of a global batch that count in its loss, from this
  /// rank's rows.
  double counted_share(const at::Tensor& targets) const;
  /// **Collective.** The 2-norm of the gradients of the whole model, a float64 scalar on device(),
  /// the same on all ranks. It may be non-finite. A loss scale is part of it.
  at::Tensor grad_norm() const;

  /// The parameters for this rank's optimizer.
  const Parameters& parameters() const& { return parts_.parameters; }
  Parameters parameters() && { return std::move(parts_.parameters); }
  /// The buffers of this rank's units, for checkpoints, e.g. the bias that balances a router.
  const Parameters& buffers() const& { return parts_.buffers; }
  Parameters buffers() && { return std::move(parts_.buffers); }
  /// The plan that the model was composed with, with this rank's groups.
  const RealizedPlan& plan() const& { return parts_.plan; }
  RealizedPlan plan() && { return std::move(parts_.plan); }
  /// What this rank has sent so far, by the names of the plan's groups.
  SentBytes sent_bytes() const { return tessera::sent_bytes(parts_.plan.group("loss")); }
  /// Of each replica, over all its ranks.
  const Schedule& schedule() const { return parts_.pipeline.schedule(); }

  /// Receives the times of a recorded step.
  struct Recorder {
    std::function<void(const PipelineRecord&)> pipeline = {};  // On the ranks of the first replica.
    /// On all ranks, if units are sharded or sequences are split.
    std::function<void(const UnitRecord&)> units = {};
  };
  /// Records one of `every` steps from now on; 0 records none. All ranks begin a recorded step at
  /// the same time.
  void record(int64_t every, Recorder recorder);
  /// Whether it records the step of this number.
  bool records(int64_t step) const { return is_due(step, record_every_); }
  /// The number of the next step in records, e.g. of a resumed run.
  void set_step(int64_t step) { steps_ = step; }

 private:
  /// This rank's positions of its rows.
  PipelineBatch batch_of(const at::Tensor& inputs, const at::Tensor& targets,
                         const at::Tensor& documents) const;
  /// The indices of this rank's tokens in the global batch.
  at::Tensor places_of(const at::Tensor& inputs, const PackedRows* documents) const;
  /// This rank's tokens / all tokens of a batch.
  double share() const;
  /// An expert without tokens has no gradient, so that the optimizer leaves it alone.
  void drop_idle(const at::Tensor& counts) const;
  /// Starts to record the units, if the step is to be recorded.
  UnitRecorder begin_record(int64_t step) const;
  void end_record(const PipelineResult& result, int64_t step, const UnitRecorder& units) const;
  /// The mean loss over the counted share of all targets, on all ranks, from the losses of the
  /// ranks with the last stage.
  at::Tensor mean_over_all(const at::Tensor& loss, double counted) const;

  EngineParts parts_;
  at::Tensor own_loss_;
  std::optional<BalanceResult> balance_ = std::nullopt;
  int64_t steps_ = 0;
  int64_t record_every_ = 0;
  Recorder recorder_ = {};
};

}  // namespace tessera
