#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/unit.h"
#include "tessera/parallel/data_parallel.h"
#include "tessera/parallel/fsdp/fsdp_options.h"

namespace tessera TSR_API {

/// Of two units of a stage, the second also reads a parameter of the first.
using SharedUnits = std::vector<std::pair<size_t, size_t>>;

/// A stage whose parameters are sharded: each rank keeps one piece of every unit. A unit's
/// parameters are gathered before its forward and its backward pass and freed afterwards, and its
/// gradients are reduce-scattered when they are complete.
class FsdpStage final : public DataParallel {
 public:
  /// Local. Changes the units, which must be placed: their parameters become this rank's shards,
  /// and their forward functions gather and free. Parameters of experts are sharded over `experts`,
  /// with equal shares of the batch.
  FsdpStage(std::vector<Unit>& units, const FsdpGroups& groups, const FsdpGroups& experts,
            const FsdpOptions& options, const SharedUnits& shared = {});
  ~FsdpStage() override;

  /// ConfigError, the same on all ranks, if their models differ.
  void start() override;
  void record(const UnitRecorder& recorder) override;
  void begin_step() override;
  /// Starts to gather all units; does nothing with ShardTime::kPerUnit.
  void unshard() override;
  /// Frees all units, unless Reshard::kKeep; does nothing with ShardTime::kPerUnit.
  void reshard() override;
  void last_backward() override;
  /// Starts to reduce the gradients of all units; does nothing with ShardTime::kPerUnit.
  void reduce_grad() override;
  void finish_step() override;

 private:
  struct State;
  std::shared_ptr<State> state_;  // The units' forward functions hold it, too.
};

}  // namespace tessera
