#include "tessera/parallel/tensor/row_linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/layer/linear.h"
#include "tessera/parallel/tensor/internal/layer_call.h"
#include "tessera/parallel/tensor/internal/pieces.h"

namespace tessera {

using namespace tensor::detail;

namespace {

namespace autograd = torch::autograd;

at::Tensor sum_in_pieces(const at::Tensor& x, const at::Tensor& weight,
                         const TensorParallel& tensor) {
  const int64_t size = positions_per_rank(x, tensor);
  const auto product = [&](int64_t rank) {
    return at::linear(x.narrow(kPositions, rank * size, size), weight);
  };
  return reduce_scatter_in_pieces(product, tensor.group);
}

at::Tensor sum_of_products(const at::Tensor& x, const LinearWeights& layer,
                           const TensorParallel& tensor) {
  const at::Tensor sum = tensor.sequence && tensor.async
                             ? sum_in_pieces(x, layer.weight, tensor)
                             : start_sum(at::linear(x, layer.weight), tensor).wait();
  if (layer.bias.defined()) sum.add_(layer.bias);
  return sum;
}

// The gradient of the sum, for all positions, and that of the input.
struct RowGradients {
  at::Tensor whole;
  at::Tensor input = {};
};

RowGradients gradients_in_pieces(const at::Tensor& gradient, const at::Tensor& weight,
                                 const Group& group) {
  const int64_t size = gradient.size(kPositions);
  GatherInPieces gather(gradient, group);
  at::Tensor input =
      at::empty({gradient.size(0), size * group.size(), weight.size(1)}, gradient.options());
  gather.for_each([&](int64_t rank, const at::Tensor& piece) {
    for (int64_t row = 0; row < input.size(0); ++row) {
      at::Tensor part = input[row].narrow(0, rank * size, size);
      at::mm_out(part, piece[row], weight);
    }
  });
  return {gather.whole(), input};
}

RowGradients gradients_of(const at::Tensor& gradient, const at::Tensor& weight,
                          const TensorParallel& tensor, bool wants_input) {
  if (tensor.sequence && tensor.async && wants_input) {
    return gradients_in_pieces(gradient, weight, tensor.group);
  }
  RowGradients made{tensor.sequence ? start_gather(gradient, tensor).wait() : gradient};
  if (wants_input) made.input = at::matmul(made.whole, weight);
  return made;
}

class RowLinear : public autograd::Function<RowLinear> {
 public:
  // `parameters` are those of the call, as autograd's inputs.
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            at::TensorList /*parameters*/, const LayerCallPtr& call,
                            KeptResults* kept) {
    const LinearWeights& layer = call->layers[0];
    context->save_for_backward({x, layer.weight});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return kept_or_computed(
        kept, [&] { return KeptResults::Results{sum_of_products(x, layer, call->tensor)}; })[0];
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const LayerCall& call = LayerCall::of(*context);
    const autograd::variable_list saved = context->get_saved_variables();
    const RowGradients of =
        gradients_of(gradients[0], saved[1], call.tensor, context->needs_input_grad(0));
    autograd::variable_list made(1 + parameters_of(call.layers).size() + 2);
    made[0] = of.input;
    const GradientOperands operands{saved[0], of.whole, gradients[0]};
    make_gradients(*context, call, {&operands, 1}, made);
    return made;
  }
};

}  // namespace

at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const Pass& pass) {
  const TensorParallel* const tensor = active(pass);
  if (tensor == nullptr) return linear(x, weight, bias, pass);
  check_input(x);
  const LinearWeights layer{weight, bias};
  if (!at::GradMode::is_enabled()) {
    return kept_or_computed(
        pass.kept, [&] { return KeptResults::Results{sum_of_products(x, layer, *tensor)}; })[0];
  }
  const std::span<const LinearWeights> layers(&layer, 1);
  return RowLinear::apply(x, at::TensorList(parameters_of(layers)),
                          c10::make_intrusive<LayerCall>(pass, layers), pass.kept);
}

}  // namespace tessera
