#include "tessera/parallel/tensor/internal/layer_call.h"

#include <cstddef>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/layer/linear.h"

namespace tessera::tensor::detail {
namespace {

// Of `count` layers of a call.
ParameterPlaces places_of(const LayerCall& call, size_t first, size_t count) {
  const std::span<const LinearWeights> layers = call.layers;
  const auto num_biases = [&](size_t begin, size_t size) {
    return parameters_of(layers.subspan(begin, size)).size() - size;
  };
  return {1 + first, 1 + layers.size() + num_biases(0, first), num_biases(first, count)};
}

}  // namespace

const TensorParallel* active(const Pass& pass) {
  return pass.tensor == nullptr || pass.tensor->group.size() == 1 ? nullptr : pass.tensor;
}

void check_input(const at::Tensor& x) {
  TSR_CHECK(x.dim() == 3, "a tensor-parallel layer needs [batch, positions, width], but got shape ",
            x.sizes());
}

int64_t positions_per_rank(const at::Tensor& x, const TensorParallel& tensor) {
  TSR_CHECK(x.dim() > kPositions, "tensor parallelism needs [batch, positions, …], but got shape ",
            x.sizes());
  const int64_t positions = x.size(kPositions);
  const int64_t size = tensor.group.size();
  TSR_CHECK(positions % size == 0, "sequence parallelism cannot split ", positions,
            " positions evenly over the ", size, " ranks of group ", tensor.group.name(),
            "; choose a sequence length that is a multiple of ", size, ", or use --no-sp");
  return positions / size;
}

Work start_gather(const at::Tensor& x, const TensorParallel& tensor) {
  return all_gather(x, tensor.group, kPositions);
}

Work start_sum(const at::Tensor& partial, const TensorParallel& tensor) {
  if (!tensor.sequence) return all_reduce(partial, tensor.group);
  positions_per_rank(partial, tensor);
  return reduce_scatter(partial, tensor.group, ReduceOp::kSum, kPositions);
}

LayerCall::LayerCall(const Pass& pass, std::span<const LinearWeights> layers)
    : tensor(*pass.tensor),
      fp8(pass.fp8),
      adds_gradients(pass.adds_gradients),
      layers(layers.begin(), layers.end()) {
  if (pass.deferred == nullptr) return;
  deferred = *pass.deferred;
  for (const LinearWeights& layer : layers) {
    check_deferrable(layer.weight);
    check_deferrable(layer.bias);
  }
}

const LayerCall& LayerCall::of(torch::autograd::AutogradContext& context) {
  return static_cast<const LayerCall&>(*context.saved_data["call"].toCapsule());
}

void make_gradients(const torch::autograd::AutogradContext& context, const LayerCall& call,
                    std::span<const GradientOperands> operands, std::vector<at::Tensor>& made) {
  const size_t each = operands.size() == 1 ? call.layers.size() : 1;
  for (size_t i = 0; i < operands.size(); ++i) {
    const GradientOperands& of = operands[i];
    const auto layers = std::span(call.layers).subspan(i, each);
    if (!call.deferred) {
      const std::vector<at::Tensor> parameters = parameters_of(layers);
      tessera::make_gradients(context, at::TensorList(parameters).slice(0, each),
                              places_of(call, i, each), of, call.fp8, call.adds_gradients, made);
      continue;
    }
    call.deferred->add([layers = std::vector(layers.begin(), layers.end()), of, fp8 = call.fp8] {
      accumulate_gradients(layers, of.x, of.gradient, of.gradient_for_bias, fp8);
    });
  }
}

}  // namespace tessera::tensor::detail
