#pragma once

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// What keeps the copies or shards of one stage on several ranks in step: the contract between a
/// step and DDP, FSDP and their kind. All calls of a step come on one thread.
///
/// The calls in between come at the actions of these names in the pipeline's table, and even if the
/// step has already failed on this rank: they may be **collective**.
class DataParallel {
 public:
  DataParallel() = default;
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;
  virtual ~DataParallel();

  /// **Collective.** Once, when the stage's parameters have their values.
  virtual void start() {}
  /// Before the first action of a training step.
  virtual void begin_step() = 0;
  virtual void unshard() {}
  virtual void reshard() {}
  /// Right before the stage's last backward pass: gradients become final from here on.
  virtual void last_backward() {}
  virtual void reduce_grad() {}
  /// **Collective.** After the last action: on return the gradients are those of the whole batch.
  virtual void finish_step() = 0;
};

}  // namespace tessera
