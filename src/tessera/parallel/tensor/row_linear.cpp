#include "tessera/parallel/tensor/row_linear.h"

#include <ATen/ops/empty.h>
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
                         const TensorParallel& tensor, Fp8 fp8) {
  const int64_t size = positions_per_rank(x, tensor);
  const auto product = [&](const Piece& piece) {
    const int64_t begin = piece.rank * size + piece.positions.begin;
    return linear_product(x.narrow(kPositions, begin, piece.positions.size()), weight, {}, fp8);
  };
  return reduce_scatter_in_pieces(product, size, tensor.group);
}

at::Tensor sum_of_products(const at::Tensor& x, const LinearWeights& layer,
                           const TensorParallel& tensor, Fp8 fp8) {
  const at::Tensor sum = tensor.sequence && tensor.async
                             ? sum_in_pieces(x, layer.weight, tensor, fp8)
                             : start_sum(linear_product(x, layer.weight, {}, fp8), tensor).wait();
  if (layer.bias.defined()) sum.add_(layer.bias);
  return sum;
}

// What the backward pass is to compute.
struct Wanted {
  bool input = false;
  bool weight = false;  // At once; otherwise it waits, or is not needed.
};

struct RowGradients {
  at::Tensor whole = {};  // Of the sum, for all positions.
  at::Tensor input = {};
  at::Tensor weight = {};
};

void write_input_gradient(const at::Tensor& values, const at::Tensor& weight, Fp8 fp8,
                          at::Tensor out) {
  for (int64_t row = 0; row < out.size(0); ++row) {
    at::Tensor part = out[row];
    if (takes_fp8(values[row], weight.t(), fp8)) {
      part.copy_(linear_input_gradient(values[row], weight, fp8));
    } else {
      at::mm_out(part, values[row], weight);
    }
  }
}

// Each piece serves both gradients before the next one is waited for.
RowGradients gradients_in_pieces(const at::Tensor& gradient, const at::Tensor& x,
                                 const at::Tensor& weight, const LayerCall& call, Wanted wanted) {
  const int64_t size = gradient.size(kPositions);
  GatherInPieces gather(gradient, call.tensor.group);
  RowGradients made{.input = at::empty_like(x, at::MemoryFormat::Contiguous)};
  gather.for_each([&](const Piece& piece, const at::Tensor& values) {
    const int64_t begin = piece.rank * size + piece.positions.begin;
    const auto part_of = [&](const at::Tensor& all) {
      return all.narrow(kPositions, begin, piece.positions.size());
    };
    write_input_gradient(values, weight, call.fp8, part_of(made.input));
    if (!wanted.weight) return;
    const at::Tensor part = linear_weight_gradient(part_of(x), values, call.fp8);
    made.weight = made.weight.defined() ? made.weight.add_(part) : part;
  });
  if (!wanted.weight) made.whole = gather.whole();
  return made;
}

RowGradients gradients_of(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight,
                          const LayerCall& call, Wanted wanted) {
  const TensorParallel& tensor = call.tensor;
  if (tensor.sequence && tensor.async && wanted.input) {
    return gradients_in_pieces(gradient, x, weight, call, wanted);
  }
  RowGradients made{.whole = tensor.sequence ? start_gather(gradient, tensor).wait() : gradient};
  if (wanted.input) made.input = linear_input_gradient(made.whole, weight, call.fp8);
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
    return kept_or_computed(kept, [&] {
      return KeptResults::Results{sum_of_products(x, layer, call->tensor, call->fp8)};
    })[0];
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const LayerCall& call = LayerCall::of(*context);
    const autograd::variable_list saved = context->get_saved_variables();
    const Wanted wanted{.input = context->needs_input_grad(0),
                        .weight = !call.deferred && context->needs_input_grad(1)};
    const RowGradients of = gradients_of(gradients[0], saved[0], saved[1], call, wanted);
    autograd::variable_list made(1 + parameters_of(call.layers).size() + 2);
    made[0] = of.input;
    made[1] = of.weight;
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
    return kept_or_computed(pass.kept, [&] {
      return KeptResults::Results{sum_of_products(x, layer, *tensor, pass.fp8)};
    })[0];
  }
  const std::span<const LinearWeights> layers(&layer, 1);
  return RowLinear::apply(x, at::TensorList(parameters_of(layers)),
                          c10::make_intrusive<LayerCall>(pass, layers), pass.kept);
}

}  // namespace tessera
