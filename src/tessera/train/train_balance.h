#pragma once

#include <functional>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/layer/router_balance.h"
#include "tessera/layer/router_capacity.h"
#include "tessera/mesh/realize.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// The balance of experts over the ranks of a training run. In a dense model all of it does
/// nothing.
///
/// The balancing loss is that of the global batch on every layout, so the tokens per expert must be
/// known before the first backward pass. If a rank runs all of its batch in one forward pass, they
/// are known then. Otherwise, with slices or stages, a pass without gradients counts them first.
/// The same holds for the tokens that full experts drop; that pass then runs all rows of a rank at
/// once, since a layer must have seen all tokens before the next layer can begin.
class TrainBalance {
 public:
  /// `sequence`: whether the ranks of tp have different positions. ConfigError if a dense model has
  /// a capacity.
  TrainBalance(const std::optional<BalanceOptions>& options, const CapacityOptions& capacity,
               const RealizedPlan& plan, bool sequence, const Schedule& schedule);

  /// For Pass::balance; null in a dense model.
  RouterBalance* routers() { return routers_ ? &*routers_ : nullptr; }
  /// For Pass::capacity; null if experts take all tokens.
  RouterCapacity* capacity() { return capacity_ ? &*capacity_ : nullptr; }
  /// For Pass::only_routes: whether the pass of begin_step() runs now.
  bool is_counting() const { return is_counting_; }
  /// Whether that pass must run all rows of a rank at once.
  bool counts_whole_batches() const { return capacity_ && !in_one_pass_; }

  /// **Collective.** `scale` multiplies gradients; `count` runs all forward passes of the batch.
  void begin_step(double scale, at::Device device, const std::function<void()>& count);
  /// **Collective**, when a loss is there: the last moment before a backward pass.
  void before_backward();
  /// **Collective.** The balance of the step.
  std::optional<BalanceResult> end_step();

 private:
  void close();

  std::optional<RouterBalance> routers_ = std::nullopt;
  std::optional<RouterCapacity> capacity_ = std::nullopt;
  std::vector<Group> groups_;  // Sums over all ranks that have different tokens or layers.
  bool in_one_pass_;
  bool in_step_ = false;
  bool is_counting_ = false;
};

}  // namespace tessera
