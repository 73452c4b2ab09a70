#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/parallel/pipeline/stage.h"
#include "tessera/schedule/schedule.h"

namespace tessera::pipeline::detail {
struct PipelineCore;
}

namespace tessera TSR_API {

/// The mean loss of a microbatch, a scalar, from the last stage's outputs.
using PipelineLoss = std::function<at::Tensor(const Tensors& outputs, const at::Tensor& target)>;

/// Loss and devices of a pipeline.
struct PipelineOptions {
  PipelineLoss loss = {};  // Required on the rank of the last stage.
  /// Device of the stages, of the same kind on all ranks; the default is the group's device. With
  /// Gloo it may be a GPU.
  std::optional<c10::Device> device = std::nullopt;
};

/// A rank's inputs of a step.
struct PipelineBatch {
  Tensors inputs = {};     // Inputs of the first stage; ignored on other ranks.
  at::Tensor target = {};  // Target of the last stage; ignored on other ranks.
  Keywords keywords = {};  // Keyword arguments for all stages of this rank.
  double loss_scale = 1;   // Gradients are those of the loss times this.
  bool outputs = false;    // Whether to return the outputs of the last stage.
  bool record = false;     // Whether to record the times of the actions.
  /// The caller's step number, or -1. CommError if the ranks pass different numbers.
  int64_t step = -1;
};

/// A rank's results of a step. Only the rank of the last stage has outputs and losses; elsewhere
/// they are empty or undefined.
struct PipelineResult {
  Tensors outputs = {};  // Outputs of all microbatches, concatenated along dimension 0; if wanted.
  Tensors losses = {};   // One per microbatch.
  at::Tensor loss = {};  // Loss of the batch: the mean of `losses`, weighted by rows.

  int64_t peak_activations = 0;  // Most activations in memory at once, in stages × microbatches.
  std::optional<PipelineRecord> record = std::nullopt;  // Of step(), if PipelineBatch::record.
  /// When the ranks of the pipeline had agreed on the step: the origin of the times in `record`.
  std::chrono::steady_clock::time_point started = {};
};

/// Runs the stages of a model on the ranks of a group, microbatch by microbatch, in the order of a
/// schedule.
///
///   Pipeline pipeline(stages, generate({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 8}),
///                     mesh.get_group("pp"), {.loss = loss});
///   const PipelineResult result = pipeline.step({.inputs = {tokens}, .target = targets});
///   optimizer.step();
///
/// A batch is split along dimension 0 by microbatch_sizes(). A step accumulates the gradient of the
/// mean loss over the whole batch, as one process would.
///
/// All functions are **collective** over the group. If one rank cannot run a step, all ranks refuse
/// it before they send anything: that rank throws its own error, the others one that names the
/// rank. If a stage throws, the step ends on every rank that waits for it. docs/pipelines.md has
/// the details.
///
/// Threads: one thread at a time. step() and evaluate() run the stages, their hooks and the loss on
/// the calling thread; on a GPU, autograd uses its own thread of that device. Pipelines over
/// different groups may run on different threads.
class Pipeline {
 public:
  /// `stages` are those of this rank. Lowers the schedule if it is compute-only, and verifies it.
  /// ConfigError, the same on all ranks, if the schedules differ or do not fit the group, or if
  /// stages are missing or on another rank than in the schedule.
  Pipeline(std::vector<Stage> stages, const Schedule& schedule, const Group& group,
           PipelineOptions options = {});
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;
  ~Pipeline();

  /// Forward and backward of one batch.
  PipelineResult step(const PipelineBatch& batch);
  /// Forward only, without gradients. With a target it also computes losses.
  PipelineResult evaluate(const PipelineBatch& batch);
  /// Broadcasts the loss of a result to all ranks.
  at::Tensor share_loss(const PipelineResult& result) const;

  /// The lowered schedule that is executed.
  const Schedule& schedule() const;
  /// As given to the constructor.
  const Group& group() const;
  /// Those of this rank, in the order given. Valid as long as the pipeline.
  std::span<const Stage> stages() const;
  /// Whether this rank needs PipelineBatch::inputs.
  bool has_first_stage() const;
  /// Whether a step needs PipelineBatch::target on this rank, and gives it the losses.
  bool has_last_stage() const;

 private:
  pipeline::detail::PipelineCore& core() const;  // StateError if this object was moved from.
  std::unique_ptr<pipeline::detail::PipelineCore> core_;
};

}  // namespace tessera
