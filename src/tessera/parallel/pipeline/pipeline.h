#pragma once

#include <c10/core/Device.h>

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

struct PipelineOptions {
  PipelineLoss loss = {};  // Needed where the last stage is.
  /// Where the stages compute; the group's own device unless given. Over Gloo it may be a GPU.
  std::optional<c10::Device> device = std::nullopt;
};

/// What a rank brings to a step.
struct PipelineBatch {
  Tensors inputs = {};     // Of the first stage; looked at on its rank alone.
  at::Tensor target = {};  // The same for the last stage.
  Keywords keywords = {};  // For the stages of this rank, whichever they are.
  bool outputs = false;    // Whether the last stage's outputs are wanted.
  bool record = false;     // Whether the times of a step are wanted.
  /// The caller's number of the step, or -1. Ranks that give different numbers are told so.
  int64_t step = -1;
};

/// What a rank has of a step.
struct PipelineResult {
  // On the rank of the last stage; elsewhere empty or undefined.
  Tensors outputs = {};  // Of all microbatches, joined along dimension 0; where wanted.
  Tensors losses = {};   // Of each microbatch.
  at::Tensor loss = {};  // Their mean, each with the weight of its rows: the batch's loss.

  int64_t peak_activations = 0;  // The most that were held at once, in stages × microbatches.
  std::optional<PipelineRecord> record = std::nullopt;
};

/// Runs the stages of a model on the ranks of a group, each microbatch after the other, in the
/// order of a table.
///
///   Pipeline pipeline(stages, generate({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 8}),
///                     mesh.get_group("pp"), {.loss = loss});
///   const PipelineResult result = pipeline.step({.inputs = {tokens}, .target = targets});
///   optimizer.step();
///
/// A batch is cut along dimension 0 by microbatch_sizes(). A step adds to the parameters the
/// gradient of the mean loss over the whole batch: what one process would add.
///
/// Everything here is **collective** among the ranks of the group. What one of them cannot do is
/// refused by all before anything is sent: the rank itself raises its error, the others one that
/// names it. A stage that throws ends the step on every rank that waits for it. docs/pipelines.md
/// has the details.
///
/// Thread rules: one thread at a time. step() and evaluate() run the stages, their hooks and the
/// loss on the thread that calls them, one after the other; only what autograd does on a GPU runs
/// on autograd's thread of that device. Pipelines over different groups may run on different
/// threads.
class Pipeline {
 public:
  /// `stages` are those of this rank. The schedule is lowered where it is compute-only, and
  /// verified. ConfigError, the same on all ranks, where tables differ, do not fit the group, or
  /// stages are missing or placed otherwise.
  Pipeline(std::vector<Stage> stages, const Schedule& schedule, const Group& group,
           PipelineOptions options = {});
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;
  ~Pipeline();

  /// Forward and backward of a batch.
  PipelineResult step(const PipelineBatch& batch);
  /// Forward alone, without gradients; with a target there are losses.
  PipelineResult evaluate(const PipelineBatch& batch);
  /// The loss of a result on all ranks.
  at::Tensor share_loss(const PipelineResult& result) const;

  /// What is executed.
  const Schedule& schedule() const;
  const Group& group() const;
  std::span<const Stage> stages() const;
  bool has_first_stage() const;
  bool has_last_stage() const;

 private:
  pipeline::detail::PipelineCore& core() const;  // StateError once it was moved from.
  std::unique_ptr<pipeline::detail::PipelineCore> core_;
};

}  // namespace tessera
