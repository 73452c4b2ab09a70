#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>

#include "tessera/base/export.h"
#include "tessera/layer/router.h"

namespace tessera TSR_API {

/// Which rows a full expert keeps.
enum class DropPolicy {
  kProbs,     // Those with the largest weights, to 1/1024; of equal ones the first of the batch.
  kPosition,  // The first of the batch.
};

/// How many tokens an expert accepts.
struct CapacityOptions {
  double factor = 0;  // The most rows of an expert, as a multiple of the mean; 0: no limit.
  DropPolicy policy = DropPolicy::kProbs;  // For full experts; not used without a limit.
};

/// The most rows of an expert: factor · pairs / experts, rounded up. `pairs` are the tokens of the
/// whole batch, times top_k.
int64_t expert_capacity(double factor, int64_t pairs, int64_t experts);

/// A row of Routing::experts without an expert: the pair was dropped.
inline constexpr int64_t kNoExpert = -1;

/// Of the ranks with other tokens of the batch; both are **collective**, empty if there are none.
struct CapacityRanks {
  std::function<at::Tensor(const at::Tensor& table)> sum = {};    // May be in place.
  std::function<at::Tensor(const at::Tensor& rows)> gather = {};  // Concatenates [rows, …].
};

/// Drops tokens of full experts in a training step. The batch is the global one on every layout, so
/// an expert keeps the same tokens whatever ranks and slices they are on.
///
///   capacity.begin();
///   at::Tensor y = model.forward(x, {.capacity = &capacity});
///   capacity.end();
///
/// A layer decides once per step, when all tokens of this rank reach it in one forward pass. With
/// slices, such a pass without gradients comes first; then, and if a layer runs again, its decision
/// stands.
class RouterCapacity {
 public:
  /// ConfigError if the factor is not above 0.
  RouterCapacity(const CapacityOptions& options, int64_t experts, CapacityRanks ranks = {});

  /// As given to the constructor.
  const CapacityOptions& options() const& { return options_; }

  /// Also after a step that failed.
  void begin();
  /// Nothing is dropped from now on.
  void end();

  /// For routers: the experts of each token [batch, positions, top_k], with kNoExpert for pairs
  /// that are dropped. `places` is Pass::places. **Collective**, if the layer has not decided yet.
  at::Tensor keep(const Routing& routing, const at::Tensor& places, int64_t layer);

 private:
  /// The dropped pairs of all ranks, as place · experts + expert.
  at::Tensor decide(const Routing& routing, const at::Tensor& places) const;

  CapacityOptions options_;
  int64_t experts_;
  CapacityRanks ranks_;
  bool in_step_ = false;
  std::map<int64_t, at::Tensor> dropped_ = {};  // By layer.
};

}  // namespace tessera
