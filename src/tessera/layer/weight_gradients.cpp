#include "tessera/layer/weight_gradients.h"

#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <deque>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {

namespace {

using torch::autograd::impl::grad_accumulator;
using torch::autograd::impl::hooks;
using torch::autograd::impl::post_acc_grad_hooks;

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

void accumulate_gradient(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (!parameter.requires_grad()) return;
  const at::NoGradGuard no_grad;
  torch::autograd::variable_list gradients{gradient};
  for (const auto& hook : hooks(parameter)) gradients = (*hook)(gradients);
  (*grad_accumulator(parameter))(std::move(gradients));
}

void accumulate_product(const at::Tensor& parameter, const at::Tensor& left,
                        const at::Tensor& right) {
  if (!parameter.requires_grad()) return;
  const at::NoGradGuard no_grad;
  at::Tensor& sum = parameter.mutable_grad();
  // Hooks of the gradient itself want to see it alone.
  const bool adds = sum.defined() && sum.scalar_type() == left.scalar_type() &&
                    !sum.requires_grad() && hooks(parameter).empty();
  if (!adds) return accumulate_gradient(parameter, at::mm(left, right));
  sum.addmm_(left, right);
  const auto& hook = post_acc_grad_hooks(parameter);
  if (hook) (*hook)(parameter);
}

void check_deferrable(const at::Tensor& parameter) {
  TSR_CHECK(
      !parameter.defined() || parameter.is_leaf(),
      "a deferred weight gradient needs a leaf tensor as weight, but this weight is the result "
      "of an operation; pass the parameter, or do not defer");
}

}  // namespace tessera
