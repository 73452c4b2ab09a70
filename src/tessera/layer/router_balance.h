#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "tessera/base/export.h"
#include "tessera/layer/router.h"

namespace tessera TSR_API {

/// What a load-balancing loss compares. With counts c_e of tokens and mean probabilities p_e per
/// expert, f_e the share of tokens that visit it, E experts and k experts per token:
enum class BalanceKind {
  kModel,     // E·Σ f_e·p_e, over the tokens of all layers together (Hugging Face).
  kLayer,     // The sum over the layers of E/k·Σ f_e·p_e of each (Megatron's global kind).
  kSequence,  // The same per sequence, and the mean over them (Megatron's per-sequence kind).
};

/// How the balance of the experts is measured and learned.
struct BalanceOptions {
  int64_t layers = 0;                      // With experts.
  int64_t experts = 0;                     // Per layer, on all ranks together.
  int64_t top_k = 1;                       // Experts per token.
  BalanceKind kind = BalanceKind::kModel;  // Over the model, per layer or per sequence.
  double coefficient = 0;                  // Of the load-balancing loss; 0: no such loss.
  double z_coefficient = 0;  // Of the mean squared log-sum-exp of the logits, summed over layers.
  RouterScore score = RouterScore::kSoftmax;  // Must be that of the routers.
};

/// Sums a tensor over ranks, in place.
using RankSum = std::function<void(const at::Tensor& table)>;

/// The ranks that hold positions of the same sequences, for BalanceKind::kSequence. Each router
/// sums over them once per forward pass.
struct SequenceRanks {
  RankSum sum = {};   // **Collective** over these ranks; empty if there is only one.
  int64_t count = 1;  // Number of these ranks, this one included.
};

/// The balance of one step.
struct BalanceResult {
  double loss = 0;          // Without its coefficient.
  double z_loss = 0;        // The same; 0 if its coefficient is.
  at::Tensor counts = {};   // Tokens per expert, [layers, experts], float64; dropped ones, too.
  at::Tensor dropped = {};  // Those that were dropped; undefined if experts have no capacity.
};

/// The balancing losses of a training step. They are those of the global batch on every layout:
/// their gradient at a router is c·dp, with counts c of the whole batch, so c must be complete
/// before the first backward pass begins. Given c, the gradient is a plain sum over tokens, which
/// slices, replicas and stages add up like any other.
///
///   balance.begin(1);
///   at::Tensor y = model.forward(x, {.balance = &balance});  // Routers count.
///   balance.close();                                         // c is complete.
///   loss(y).backward();                                      // Routers add the gradients.
///   double aux = balance.end().loss;
///
/// With several slices, or on several stages, all forward passes run once without gradients before
/// close(): routers only count between begin() and close().
class RouterBalance {
 public:
  explicit RouterBalance(const BalanceOptions& options, SequenceRanks sharers = {});

  /// Whether there is a loss, so that close() must come before a backward pass.
  bool has_loss() const { return options_.coefficient > 0 || options_.z_coefficient > 0; }
  /// As given to the constructor.
  const BalanceOptions& options() const& { return options_; }

  /// `scale` multiplies the gradients of the losses, e.g. by a loss scale.
  void begin(double scale, at::Device device = at::kCPU);
  /// **Collective**, if `sum` is. Does nothing after the first time.
  void close(const RankSum& sum = {});
  /// Closed before. Routers neither count nor add gradients from now on.
  BalanceResult end();

  /// For routers: counts the tokens of [batch, positions, …] logits, and returns the weights. In
  /// their backward pass the logits get the gradients of the losses, too.
  at::Tensor join(const Routing& routing, const at::Tensor& logits, int64_t layer, bool counts);

 private:
  struct Step;
  BalanceOptions options_;
  SequenceRanks sharers_;
  std::shared_ptr<Step> step_ = {};  // Between begin() and end().
};

}  // namespace tessera
