#include "tessera/layer/kept_results.h"

#include <ATen/ops/empty_strided.h>

#include <utility>

#include "tessera/base/error.h"

namespace tessera {
namespace {

int64_t version_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor._version() : 0;
}

// Of the same shape, with one element in memory.
at::Tensor without_values(const at::Tensor& tensor) {
  const std::vector<int64_t> strides(static_cast<size_t>(tensor.dim()), 0);
  return at::empty_strided(tensor.sizes(), strides, tensor.options());
}

}  // namespace

KeptResults::Results KeptResults::results(const std::function<Results()>& compute) {
  if (is_second_run_) return next();
  Results made = compute();
  counts_.push_back(made.size());
  for (const at::Tensor& tensor : made) {
    tensors_.push_back(tensor);
    versions_.push_back(version_of(tensor));
  }
  return made;
}

KeptResults::Results KeptResults::next() {
  if (next_layer_ == counts_.size()) {
    throw StateError(
        "the second forward pass of a recomputed unit has more layers than the first; use "
        "recompute 'full' for a unit whose layers change");
  }
  Results kept;
  for (size_t i = 0; i < counts_[next_layer_]; ++i) {
    const at::Tensor& tensor = tensors_[next_tensor_++];
    // Without the history of the first run.
    kept.push_back(tensor.defined() ? tensor.detach() : tensor);
  }
  ++next_layer_;
  return kept;
}

std::vector<at::Tensor> KeptResults::take(const at::Tensor& output) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (version_of(tensors_[i]) != versions_[i]) {
      throw StateError(
          "a unit changes the result of a linear layer or of attention in place, so selective "
          "recompute cannot keep it; use operations that return a new tensor, or recompute "
          "'full'");
    }
    if (tensors_[i].is_same(output)) tensors_[i] = without_values(output);
  }
  return std::exchange(tensors_, {});
}

void KeptResults::begin_second_run(std::vector<at::Tensor> tensors) {
  tensors_ = std::move(tensors);
  is_second_run_ = true;
  next_layer_ = next_tensor_ = 0;
}

KeptResults::Results kept_or_computed(KeptResults* kept,
                                      const std::function<KeptResults::Results()>& compute) {
  return kept == nullptr ? compute() : kept->results(compute);
}

}  // namespace tessera
