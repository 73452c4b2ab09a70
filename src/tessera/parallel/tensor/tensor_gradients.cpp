#include "tessera/parallel/tensor/tensor_gradients.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <map>
#include <utility>

#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"

namespace tessera {
namespace {

bool is_partial(const Parameter& parameter, const TensorParallel& tensor) {
  if (!parameter.tensor.requires_grad() || parameter.place.tensor_copies == 1) return false;
  return tensor.sequence || parameter.tensor_dim.has_value();
}

at::Tensor flat_gradient(const at::Tensor& tensor) {
  return (tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor)).reshape(-1);
}

}  // namespace

TensorGradients::TensorGradients(const Parameters& parameters, const TensorParallel& tensor) {
  std::map<std::pair<int64_t, at::ScalarType>, std::vector<at::Tensor>> by_copies;
  for (const Parameter& parameter : parameters) {
    if (!is_partial(parameter, tensor)) continue;
    by_copies[{parameter.place.tensor_copies, parameter.tensor.scalar_type()}].push_back(
        parameter.tensor);
  }
  for (auto& [key, tensors] : by_copies) {
    sums_.push_back({neighbours(tensor.group, key.first), std::move(tensors)});
  }
}

void TensorGradients::add() const {
  const at::NoGradGuard no_grad;
  for (const auto& [group, tensors] : sums_) {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& tensor : tensors) gradients.push_back(flat_gradient(tensor));
    const at::Tensor sum = all_reduce(at::cat(gradients), group).wait();
    int64_t begin = 0;
    for (const at::Tensor& tensor : tensors) {
      const at::Tensor part = sum.narrow(0, begin, tensor.numel()).view(tensor.sizes());
      begin += tensor.numel();
      if (tensor.grad().defined()) {
        tensor.mutable_grad().copy_(part);
      } else {
        tensor.mutable_grad() = part.clone();
      }
    }
  }
}

}  // namespace tessera
