#include "tessera/optim/weight_average.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <c10/core/GradMode.h>

#include <functional>
#include <map>
#include <string>

#include "tessera/base/check.h"

namespace tessera {
namespace {

std::map<std::string, at::Tensor, std::less<>> master_copies(const Optimizer& optimizer) {
  std::map<std::string, at::Tensor, std::less<>> found;
  for (const OptimizerState& state : optimizer.state()) {
    if (state.kind == "master") found.emplace(state.name, state.tensor);
  }
  return found;
}

std::vector<at::Tensor> tensors_of(const Parameters& parameters) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

}  // namespace

WeightAverage::WeightAverage(const Parameters& parameters, const Optimizer& optimizer, double decay)
    : parameters_(parameters), decay_(decay) {
  TSR_CHECK(0 <= decay && decay < 1, "the decay of averaged weights must be ≥ 0 and < 1, but is ",
            decay);
  const auto masters = master_copies(optimizer);
  for (const Parameter& parameter : parameters_) {
    const auto master = masters.find(parameter.name);
    weights_.push_back(master == masters.end() ? parameter.tensor : master->second);
    averages_.push_back(weights_.back().detach().clone());
  }
}

void WeightAverage::update() {
  const at::NoGradGuard no_grad;
  if (!averages_.empty()) at::_foreach_lerp_(averages_, weights_, 1 - decay_);
}

void WeightAverage::reset() {
  const at::NoGradGuard no_grad;
  if (!averages_.empty()) at::_foreach_copy_(averages_, weights_);
}

Parameters WeightAverage::averages() const {
  Parameters found = parameters_;
  for (size_t i = 0; i < found.size(); ++i) found[i].tensor = averages_[i];
  return found;
}

WeightAverage::InUse::InUse(const WeightAverage& average) : average_(average) {
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : average.parameters_) {
    weights_.push_back(parameter.tensor.detach().clone());
  }
  if (!weights_.empty()) at::_foreach_copy_(tensors_of(average.parameters_), average.averages_);
}

WeightAverage::InUse::~InUse() {
  const at::NoGradGuard no_grad;
  if (!weights_.empty()) at::_foreach_copy_(tensors_of(average_.parameters_), weights_);
}

}  // namespace tessera
