#include "tessera/parallel/tensor/internal/layer_call.h"

#include <c10/core/GradMode.h>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/layer/linear.h"

namespace tessera::tensor::detail {
namespace {

void add_gradients(const LinearWeights& layer, const GradientOperands& operands, Fp8 fp8) {
  const at::NoGradGuard no_grad;
  accumulate_weight_gradient(layer.weight, operands.x, operands.gradient, fp8);
  if (!layer.bias.defined()) return;
  accumulate_gradient(layer.bias, linear_bias_gradient(operands.gradient_for_bias));
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

std::vector<at::Tensor> parameters_of(std::span<const LinearWeights> layers) {
  std::vector<at::Tensor> parameters;
  for (const LinearWeights& layer : layers) parameters.push_back(layer.weight);
  for (const LinearWeights& layer : layers) {
    if (layer.bias.defined()) parameters.push_back(layer.bias);
  }
  return parameters;
}

void make_gradients(const torch::autograd::AutogradContext& context, const LayerCall& call,
                    std::span<const GradientOperands> operands, std::vector<at::Tensor>& made) {
  size_t bias_edge = 1 + call.layers.size();
  for (size_t i = 0; i < call.layers.size(); ++i) {
    const LinearWeights& layer = call.layers[i];
    const GradientOperands& of = operands[i];
    if (call.deferred) {
      call.deferred->add([layer, of, fp8 = call.fp8] { add_gradients(layer, of, fp8); });
      continue;
    }
    if (context.needs_input_grad(1 + i) && !made[1 + i].defined()) {
      made[1 + i] =
          weight_gradient_to_add(layer.weight, of.x, of.gradient, call.fp8, call.adds_gradients);
    }
    if (!layer.bias.defined()) continue;
    if (context.needs_input_grad(bias_edge)) {
      made[bias_edge] = linear_bias_gradient(of.gradient_for_bias);
    }
    ++bias_edge;
  }
}

}  // namespace tessera::tensor::detail
