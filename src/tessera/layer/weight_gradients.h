#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Weight gradients that a backward pass has left for later, as zero-bubble schedules want it: the
/// input gradient is passed on at once, the product for the weight waits here with what it needs.
///
///   WeightGradients later;
///   at::Tensor loss = token_loss(model.forward(tokens, {.deferred = &later}), targets);
///   loss.backward();  // Input gradients; those of norms and embeddings, too.
///   later.run();      // Now the weights have theirs.
///
/// A handle: copies share the queue. For one backward pass or one run() at a time.
class WeightGradients {
 public:
  WeightGradients();

  bool empty() const { return size() == 0; }
  /// The number of products that wait.
  size_t size() const;
  /// Computes them in the order in which they came, adds each to its weight's gradient as
  /// backward() would have done, hooks included, and frees what they held.
  void run() const;
  void add(std::function<void()> product) const;

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;
};

}  // namespace tessera
