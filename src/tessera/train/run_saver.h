#pragma once

#include <cstdint>
#include <functional>

#include "tessera/base/export.h"
#include "tessera/checkpoint/saver.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tessera/run/metrics.h"

namespace tessera TSR_API {

struct TrainJob;

/// Saves the checkpoints of a run while it trains. A save that fails leaves the earlier checkpoints
/// as they are, and training continues.
class RunSaver {
 public:
  /// Gets the report of each save, failed ones included.
  using AfterSave = std::function<void(const SaveReport&)>;

  /// `after_save` is called on every rank after each save; it may be empty.
  RunSaver(const TrainJob& job, AfterSave after_save);

  /// **Collective.** After each step: publishes a save whose files are written, and starts one if
  /// it is due.
  void after_step(const StepMetrics& metrics);
  /// Whether a save begins after this step.
  bool saves_after(int64_t step) const;
  /// **Collective.** At the end of a run of `steps` steps: saves the last one, if it is not, and
  /// waits.
  void finish(int64_t steps);
  /// **Collective.** Waits for the save in flight.
  void wait();

 private:
  void save(int64_t steps);
  void report(SaveReport report);
  Metadata state_at(int64_t steps) const;

  const TrainJob& job_;
  AfterSave after_save_;
  CheckpointFolder folder_;
  CheckpointSaver saver_;
  int64_t saved_;  // The step of the last save that was started; -1: none.
};

}  // namespace tessera
