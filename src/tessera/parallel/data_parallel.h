#pragma once

#include "tessera/base/export.h"
#include "tessera/parallel/unit_recorder.h"

namespace tessera TSR_API {

/// Keeps the replicas or shards of one stage on several ranks in step: the interface between a
/// training step and a strategy like DDP or FSDP. One thread makes all calls of a step.
///
/// unshard(), reshard(), last_backward() and reduce_grad() are called at the actions of these names
/// in the pipeline's schedule. They are called even if the step has already failed on this rank,
/// because they may be **collective**.
class DataParallel {
 public:
  DataParallel() = default;
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;
  virtual ~DataParallel();

  /// **Collective.** Called once, when the stage's parameters have their values.
  virtual void start() {}
  /// Called before begin_step(): where the units record what they do, from now on.
  virtual void record(const UnitRecorder& /*recorder*/) {}
  /// Called before the first action of a training step.
  virtual void begin_step() = 0;
  /// Called before passes that read the stage's parameters: gathers them, or starts to.
  virtual void unshard() {}
  /// Called when no pass reads the parameters for now: frees gathered ones.
  virtual void reshard() {}
  /// Called right before the stage's last backward pass: from here on gradients become final.
  virtual void last_backward() {}
  /// Called once per step, after the stage's last backward pass. The reduction may stay in flight
  /// until finish_step().
  virtual void reduce_grad() {}
  /// **Collective.** Called after the last action. On return, the gradients are those of the whole
  /// batch.
  virtual void finish_step() = 0;
};

}  // namespace tessera
