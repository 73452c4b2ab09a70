#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/format/unit_record.h"
#include "tessera/mesh/realize.h"
#include "tessera/parallel/data_parallel.h"
#include "tessera/parallel/pipeline/pipeline.h"
#include "tessera/parallel/tensor/tensor_gradients.h"
#include "tessera/tensor/parameter.h"
#include "tessera/topology/box.h"
#include "tessera/train/tied_parameters.h"

namespace tessera TSR_API {

/// This rank's rows of a batch that the ranks of a group share.
Span rows_of(int64_t batch, const Group& sharers);

/// The parts of an engine; made by compose().
struct EngineParts {
  RealizedPlan plan;
  Parameters parameters;  // Updated by this rank's optimizer.
  TensorGradients tensor;
  std::vector<std::shared_ptr<DataParallel>> data_parallel;  // One per stage of this rank.
  TiedParameters tied;
  Pipeline pipeline;
  int64_t batch;  // Rows per global batch.
  at::Device device;
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
  int64_t batch() const { return parts_.batch; }
  /// The device for inputs and targets.
  at::Device device() const { return parts_.device; }

  /// **Collective.** Forward and backward of one global batch: accumulates the gradient of its mean
  /// loss, times `loss_scale`, in parameters(). Returns the loss without the scale, the same on all
  /// ranks.
  at::Tensor train_step(const at::Tensor& inputs, const at::Tensor& targets, double loss_scale = 1);
  /// **Collective.** The mean loss of a global batch, without gradients.
  at::Tensor evaluate(const at::Tensor& inputs, const at::Tensor& targets);
  /// **Collective.** The 2-norm of the gradients of the whole model, the same on all ranks. It may
  /// be non-finite. A loss scale is part of it.
  double grad_norm() const;

  /// The parameters for this rank's optimizer.
  const Parameters& parameters() const& { return parts_.parameters; }
  Parameters parameters() && { return std::move(parts_.parameters); }
  const RealizedPlan& plan() const& { return parts_.plan; }
  RealizedPlan plan() && { return std::move(parts_.plan); }
  const Schedule& schedule() const { return parts_.pipeline.schedule(); }

  /// Receives the times of a recorded step.
  struct Recorder {
    std::function<void(const PipelineRecord&)> pipeline = {};  // On the ranks of the first replica.
    std::function<void(const UnitRecord&)> units = {};  // On all ranks, if units are sharded.
  };
  /// Records one of `every` steps from now on; 0 records none. All ranks begin a recorded step at
  /// the same time.
  void record(int64_t every, Recorder recorder);
  /// The number of the next step in records, e.g. of a resumed run.
  void set_step(int64_t step) { steps_ = step; }

 private:
  /// This rank's rows / all rows of a batch.
  double share() const;
  /// Starts to record the units, if the step is to be recorded.
  UnitRecorder begin_record(int64_t step) const;
  void end_record(const PipelineResult& result, int64_t step, const UnitRecorder& units) const;
  /// The mean loss on all ranks, from the losses of the ranks with the last stage.
  at::Tensor mean_over_all(const at::Tensor& loss) const;

  EngineParts parts_;
  int64_t steps_ = 0;
  int64_t record_every_ = 0;
  Recorder recorder_ = {};
};

}  // namespace tessera
