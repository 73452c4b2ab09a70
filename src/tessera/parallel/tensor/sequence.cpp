#include "tessera/parallel/tensor/sequence.h"

#include "tessera/comm/differentiable.h"
#include "tessera/parallel/tensor/internal/layer_call.h"

namespace tessera {

using namespace tensor::detail;

namespace {

// This rank's positions of a whole tensor.
at::Tensor own_positions(const at::Tensor& whole, const TensorParallel& tensor) {
  const int64_t size = positions_per_rank(whole, tensor);
  return whole.narrow(kPositions, tensor.group.rank().value * size, size);
}

at::Tensor gathered(const at::Tensor& x, const TensorParallel& tensor) {
  return start_gather(x, tensor).wait();
}

}  // namespace

at::Tensor enter_parallel(const at::Tensor& x, const Pass& pass) {
  const TensorParallel* const tensor = active(pass);
  if (tensor == nullptr) return x;
  return tensor->sequence ? differentiable::all_gather(x, tensor->group, kPositions)
                          : differentiable::identity(x, tensor->group);
}

at::Tensor leave_parallel(const at::Tensor& x, const Pass& pass) {
  const TensorParallel* const tensor = active(pass);
  if (tensor == nullptr) return x;
  const auto sum = [&](const at::Tensor& partial) {
    return kept_or_computed(pass.kept, [&] {
      // The sum of whole tensors is in place.
      const at::Tensor own = tensor->sequence ? partial : partial.clone();
      return KeptResults::Results{start_sum(own, *tensor).wait()};
    })[0];
  };
  return differentiable::linear_map(x, sum, [tensor = *tensor](const at::Tensor& gradient) {
    return tensor.sequence ? gathered(gradient, tensor) : gradient;
  });
}

at::Tensor gather_positions(const at::Tensor& x, const Pass& pass) {
  const TensorParallel* const tensor = active(pass);
  if (tensor == nullptr || !tensor->sequence) return x;
  return differentiable::linear_map(
      x, [&](const at::Tensor& own) { return gathered(own, *tensor); },
      [tensor = *tensor](const at::Tensor& gradient) { return own_positions(gradient, tensor); });
}

at::Tensor cut_positions(const at::Tensor& x, const Pass& pass) {
  const TensorParallel* const tensor = active(pass);
  if (tensor == nullptr || !tensor->sequence) return x;
  return differentiable::linear_map(
      x, [&](const at::Tensor& whole) { return own_positions(whole, *tensor).clone(); },
      [tensor = *tensor](const at::Tensor& gradient) { return gathered(gradient, tensor); });
}

}  // namespace tessera
