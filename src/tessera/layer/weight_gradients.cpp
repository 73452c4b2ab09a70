#include "tessera/layer/weight_gradients.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <deque>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {

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
  (*torch::autograd::impl::grad_accumulator(parameter))({gradient});
}

void check_deferrable(const at::Tensor& parameter) {
  TSR_CHECK(
      !parameter.defined() || parameter.is_leaf(),
      "a deferred weight gradient needs a leaf tensor as weight, but this weight is the result "
      "of an operation; pass the parameter, or do not defer");
}

}  // namespace tessera
