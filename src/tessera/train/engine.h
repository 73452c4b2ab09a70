#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/mesh/realize.h"
#include "tessera/parallel/data_parallel.h"
#include "tessera/parallel/pipeline/pipeline.h"
#include "tessera/tensor/parameter.h"
#include "tessera/topology/box.h"
#include "tessera/train/tied_parameters.h"

namespace tessera TSR_API {

/// The rows of a batch that are this rank's, if the ranks of a group share it.
Span rows_of(int64_t batch, const Group& sharers);

/// What an engine is made of; compose() puts it together.
struct EngineParts {
  RealizedPlan plan;
  Parameters parameters;                                     // What this rank's optimizer updates.
  std::vector<std::shared_ptr<DataParallel>> data_parallel;  // One per stage of this rank.
  TiedParameters tied;
  Pipeline pipeline;
  int64_t batch;  // Rows of every global batch.
  at::Device device;
};

/// What the training loop calls: a model that is spread over ranks, of which this process holds a
/// part. The loop itself knows nothing of ranks, and the engine nothing of the model.
///
/// For one thread at a time.
class Engine {
 public:
  explicit Engine(EngineParts parts);

  /// Which rows of a global batch this rank wants.
  Span rows() const;
  int64_t batch() const { return parts_.batch; }
  /// Where inputs and targets are wanted.
  at::Device device() const { return parts_.device; }

  /// **Collective.** Forward and backward of one global batch: adds the gradient of its mean loss
  /// to those of parameters(), and gives that loss, the same on all ranks.
  at::Tensor train_step(const at::Tensor& inputs, const at::Tensor& targets);
  /// **Collective.** The mean loss of a global batch, without gradients.
  at::Tensor evaluate(const at::Tensor& inputs, const at::Tensor& targets);
  /// **Collective.** The 2-norm of the gradients of the whole model, the same on all ranks. It may
  /// be infinite or no number.
  double grad_norm() const;

  /// What this rank's optimizer updates.
  const Parameters& parameters() const& { return parts_.parameters; }
  Parameters parameters() && { return std::move(parts_.parameters); }
  const RealizedPlan& plan() const& { return parts_.plan; }
  RealizedPlan plan() && { return std::move(parts_.plan); }
  const Schedule& schedule() const { return parts_.pipeline.schedule(); }

  /// What is done with the times of a recorded step, on the ranks of the first replica.
  using Recorder = std::function<void(const PipelineRecord&)>;
  /// Every so many steps are recorded from now on, 0: none.
  void record(int64_t every, Recorder recorder);

 private:
  /// This rank's share of a batch.
  double share() const;
  /// The same on all ranks, from the losses of those that have the last stage.
  at::Tensor mean_over_all(const at::Tensor& loss) const;

  EngineParts parts_;
  int64_t steps_ = 0;
  int64_t record_every_ = 0;
  Recorder recorder_ = {};
};

}  // namespace tessera
