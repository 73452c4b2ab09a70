#pragma once

#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/parallel/data_parallel.h"
#include "tessera/parallel/ddp/ddp.h"

namespace tessera TSR_API {

/// When a stage's gradients are reduced.
enum class ReduceTime {
  kInBackward,  // While the last backward pass still runs.
  kAtAction,    // At REDUCE_GRAD; the reduction overlaps the compute of other stages.
};

/// Parameters whose gradients are summed over one group.
struct ReducedTensors {
  DdpTensors tensors = {};  // Of one stage.
  Group group;              // Its ranks hold replicas of these tensors.
  double share = 1;         // This rank's share of the rows of a batch.
};

/// The replicas of one stage on several ranks.
class DdpStage final : public DataParallel {
 public:
  /// Local.
  DdpStage(std::vector<ReducedTensors> parts, ReduceTime when, const DdpOptions& options = {});

  void start() override;
  void begin_step() override;
  void last_backward() override;
  /// Starts the reduction; does nothing with ReduceTime::kInBackward.
  void reduce_grad() override;
  void finish_step() override;

 private:
  std::vector<ReducedTensors> parts_;
  std::vector<Ddp> ddp_ = {};
  std::vector<NoSync> held_ = {};  // Not empty while gradients accumulate locally.
  ReduceTime when_;
  DdpOptions options_;
};

}  // namespace tessera
