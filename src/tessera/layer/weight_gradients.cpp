#include "tessera/layer/weight_gradients.h"

#include <deque>
#include <utility>

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

}  // namespace tessera
