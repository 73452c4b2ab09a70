#include "tessera/optim/grouped.h"

namespace tessera {

void Grouped::step(double learning_rate, const at::Tensor& gradient_factor) {
  for (const auto& group : groups_) group->step(learning_rate, gradient_factor);
}

void Grouped::zero_grad() {
  for (const auto& group : groups_) group->zero_grad();
}

std::vector<OptimizerState> Grouped::state() const {
  std::vector<OptimizerState> all;
  for (const auto& group : groups_) {
    for (OptimizerState& one : group->state()) all.push_back(std::move(one));
  }
  return all;
}

std::pair<Parameters, Parameters> split_parameters(
    const Parameters& parameters, const std::function<bool(const Parameter&)>& chosen) {
  std::pair<Parameters, Parameters> split;
  for (const Parameter& parameter : parameters) {
    (chosen(parameter) ? split.first : split.second).push_back(parameter);
  }
  return split;
}

bool is_matrix(const Parameter& parameter) {
  return parameter.place.part.shape().size() > 1;
}

}  // namespace tessera
