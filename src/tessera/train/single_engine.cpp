#include "tessera/train/single_engine.h"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/optim/clip.h"

namespace tessera {
namespace {

// The mean of the slices' losses, each counted by its rows; `use` sees each slice's part of it.
at::Tensor sum_of_slices(const LossFunction& loss, const at::Tensor& inputs,
                         const at::Tensor& targets, int64_t slices,
                         const std::function<void(const at::Tensor&)>& use) {
  const int64_t rows = inputs.size(0);
  TSR_CHECK(slices <= rows, "a batch of ", rows, " rows cannot be cut into ", slices,
            " slices; accumulate at most ", rows);
  const std::vector<at::Tensor> input = inputs.tensor_split(slices);
  const std::vector<at::Tensor> target = targets.tensor_split(slices);
  at::Tensor sum;
  for (size_t i = 0; i < input.size(); ++i) {
    const double share = static_cast<double>(input[i].size(0)) / static_cast<double>(rows);
    const at::Tensor part = loss(input[i], target[i]) * share;
    use(part);
    sum = sum.defined() ? sum + part.detach() : part.detach();
  }
  return sum;
}

}  // namespace

SingleEngine::SingleEngine(NamedParameters parameters, LossFunction loss,
                           const SingleEngineOptions& options)
    : parameters_(std::move(parameters)), loss_(std::move(loss)), options_(options) {
  TSR_CHECK(options_.accumulate >= 1, "accumulation in ", options_.accumulate,
            " slices; there is at least 1");
}

at::Tensor SingleEngine::train_step(const at::Tensor& inputs, const at::Tensor& targets) {
  return sum_of_slices(loss_, inputs, targets, options_.accumulate,
                       [](const at::Tensor& part) { part.backward(); });
}

at::Tensor SingleEngine::evaluate(const at::Tensor& inputs, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  return sum_of_slices(loss_, inputs, targets, options_.accumulate, [](const at::Tensor&) {});
}

double SingleEngine::grad_norm() {
  return tessera::grad_norm(parameters_);
}

}  // namespace tessera
