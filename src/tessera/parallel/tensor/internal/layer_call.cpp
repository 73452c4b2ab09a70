#include "tessera/parallel/tensor/internal/layer_call.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/layer/linear.h"
#include "tessera/layer/wanted_gradients.h"

namespace tessera::tensor::detail {
namespace {

/// Some layers of a call that have one input.
struct Part {
  const LayerCall& call;
  size_t first;  // Of the call's layers.
  std::span<const LinearWeights> layers;

  // Places in autograd's list of inputs.
  size_t weights() const { return 1 + first; }
  size_t biases() const {
    const auto before = std::span(call.layers).first(first);
    return 1 + call.layers.size() + parameters_of(before).size() - before.size();
  }
};

void put(std::vector<at::Tensor> gradients, size_t at, std::vector<at::Tensor>& made) {
  std::ranges::move(gradients, made.begin() + static_cast<std::ptrdiff_t>(at));
}

void make_gradients_of(const Part& part, const torch::autograd::AutogradContext& context,
                       const GradientOperands& of, std::vector<at::Tensor>& made) {
  const LayerCall& call = part.call;
  const std::vector<at::Tensor> parameters = parameters_of(part.layers);
  const at::TensorList all = parameters;
  const size_t wanted = wanted_gradients(context, part.weights(), part.layers.size());
  if (wanted > 0 && !made[part.weights()].defined()) {
    const bool adds = call.adds_gradients && wanted == part.layers.size();
    const at::TensorList weights = all.slice(0, part.layers.size());
    put(weight_gradients_to_add(weights, of.x, of.gradient, call.fp8, adds), part.weights(), made);
  }
  const at::TensorList biases = all.slice(part.layers.size());
  if (wanted_gradients(context, part.biases(), biases.size()) > 0) {
    put(bias_gradients(biases, of.gradient_for_bias), part.biases(), made);
  }
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
    const Part part{call, i, std::span(call.layers).subspan(i, each)};
    if (!call.deferred) {
      make_gradients_of(part, context, of, made);
      continue;
    }
    call.deferred->add(
        [layers = std::vector(part.layers.begin(), part.layers.end()), of, fp8 = call.fp8] {
          accumulate_gradients(layers, of.x, of.gradient, of.gradient_for_bias, fp8);
        });
  }
}

}  // namespace tessera::tensor::detail
