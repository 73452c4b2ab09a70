#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/optim/optimizer.h"

namespace tessera TSR_API {

/// Parameter groups: optimizers of disjoint parameters as one, each with its own options.
///
///   auto [matrices, others] = split_parameters(engine.parameters(), is_matrix);
///   std::vector<std::unique_ptr<Optimizer>> groups;
///   groups.push_back(std::make_unique<AdamW>(matrices, AdamWOptions{.weight_decay = 0.1}));
///   groups.push_back(std::make_unique<AdamW>(others, AdamWOptions{.weight_decay = 0}));
///   Grouped optimizer(std::move(groups));
class Grouped final : public Optimizer {
 public:
  explicit Grouped(std::vector<std::unique_ptr<Optimizer>> groups) : groups_(std::move(groups)) {}

  using Optimizer::step;
  void step(double learning_rate, const at::Tensor& gradient_factor) override;
  void zero_grad() override;
  /// The state of all groups, one group after the other.
  std::vector<OptimizerState> state() const override;

 private:
  std::vector<std::unique_ptr<Optimizer>> groups_;
};

/// The parameters for which `chosen` holds, and the others.
std::pair<Parameters, Parameters> split_parameters(
    const Parameters& parameters, const std::function<bool(const Parameter&)>& chosen);

/// Whether the parameter usually has weight decay: norms and biases, with one dimension, do not.
bool is_matrix(const Parameter& parameter);

}  // namespace tessera
