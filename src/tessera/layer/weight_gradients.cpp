#include "tessera/layer/weight_gradients.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/layer/internal/joined_rows.h"

namespace tessera {

using namespace layer::detail;

namespace {

namespace autograd = torch::autograd;
using autograd::impl::grad_accumulator;
using autograd::impl::hooks;
using autograd::impl::post_acc_grad_hooks;

// Hooks of a gradient itself want to see it alone.
bool adds_in_place(const at::Tensor& parameter, at::ScalarType dtype) {
  const at::Tensor& sum = parameter.grad();
  return sum.defined() && sum.scalar_type() == dtype && !sum.requires_grad() &&
         hooks(parameter).empty();
}

bool add_to_gradients(at::TensorList parameters, const at::Tensor& left, const at::Tensor& right) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (!adds_in_place(parameter, left.scalar_type())) return false;
    gradients.push_back(parameter.grad());
  }
  const at::NoGradGuard no_grad;
  std::optional<at::Tensor> sum = joined_rows(gradients);
  if (!sum) return false;
  sum->addmm_(left, right);
  return true;
}

struct NoGradient : autograd::Function<NoGradient> {
  static at::Tensor forward(autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static autograd::variable_list backward(autograd::AutogradContext*,
                                          const autograd::variable_list&) {
    return {at::Tensor()};
  }
};

struct Flag : autograd::PostAccumulateGradHook {
  explicit Flag(bool& given) : flag(given) {}
  void operator()(const autograd::Variable&) override { flag = true; }
  bool& flag;
};

// Whether autograd runs the hooks after a gradient also if the pass has none for the parameter:
// versions of LibTorch differ.
bool engine_runs_hooks_without_gradient() {
  static const bool runs = [] {
    const at::AutoGradMode with_gradients(true);
    const at::Tensor leaf = at::zeros({1}).requires_grad_();
    bool flag = false;
    autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<Flag>(flag));
    autograd::backward({NoGradient::apply(leaf)});
    return flag;
  }();
  return runs;
}

}  // namespace

struct WeightGradients::Queue {
  std::deque<std::function<void()>> products;
};

WeightGradients::WeightGradients() : queue_(std::make_shared<Queue>()) {}

size_t WeightGradients::size() const {
  return queue_->products.size();
}

void WeightGradients::run() const {
  while (!queue_->products.empty()) {
    const auto product = std::move(queue_->products.front());
    queue_->products.pop_front();
    product();
  }
}

void WeightGradients::add(std::function<void()> product) const {
  queue_->products.push_back(std::move(product));
}

void accumulate_gradient(const at::Tensor& parameter, at::Tensor gradient) {
  if (!parameter.requires_grad()) return;
  const at::NoGradGuard no_grad;
  torch::autograd::variable_list gradients;
  gradients.push_back(std::move(gradient));
  for (const auto& hook : hooks(parameter)) gradients = (*hook)(gradients);
  (*grad_accumulator(parameter))(std::move(gradients));
}

void accumulate_gradients(at::TensorList parameters, at::Tensor gradient) {
  std::vector<at::Tensor> parts = split_rows(std::move(gradient), parameters);
  for (size_t i = 0; i < parts.size(); ++i) accumulate_gradient(parameters[i], std::move(parts[i]));
}

void accumulate_product(at::TensorList parameters, const at::Tensor& left,
                        const at::Tensor& right) {
  const auto learns = [](const at::Tensor& parameter) { return parameter.requires_grad(); };
  if (std::ranges::none_of(parameters, learns)) return;
  const at::NoGradGuard no_grad;
  if (!std::ranges::all_of(parameters, learns) || !add_to_gradients(parameters, left, right)) {
    return accumulate_gradients(parameters, at::mm(left, right));
  }
  for (const at::Tensor& parameter : parameters) {
    const auto& hook = post_acc_grad_hooks(parameter);
    if (hook) (*hook)(parameter);
  }
}

bool add_product_in_place(at::TensorList parameters, const at::Tensor& left,
                          const at::Tensor& right) {
  const auto is_announced = [](const at::Tensor& parameter) {
    return post_acc_grad_hooks(parameter) == nullptr || engine_runs_hooks_without_gradient();
  };
  return std::ranges::all_of(parameters, is_announced) && add_to_gradients(parameters, left, right);
}

void check_deferrable(const at::Tensor& parameter) {
  TSR_CHECK(
      !parameter.defined() || parameter.is_leaf(),
      "a deferred weight gradient needs a leaf tensor as weight, but this weight is the result "
      "of an operation; pass the parameter, or do not defer");
}

}  // namespace tessera
