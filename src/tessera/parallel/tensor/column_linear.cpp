#include "tessera/parallel/tensor/column_linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "tessera/layer/joined_linear.h"
#include "tessera/layer/linear.h"
#include "tessera/layer/wanted_gradients.h"
#include "tessera/parallel/tensor/internal/layer_call.h"
#include "tessera/parallel/tensor/internal/pieces.h"

namespace tessera {

using namespace tensor::detail;

namespace {

namespace autograd = torch::autograd;
using Tensors = std::vector<at::Tensor>;
using Layers = std::span<const LinearWeights>;

// Writes a product into a part of a larger result.
void write_product(const at::Tensor& x, const LinearWeights& layer, Fp8 fp8, at::Tensor out) {
  if (takes_fp8(x, layer.weight, fp8)) {
    out.copy_(linear_product(x, layer.weight, layer.bias, fp8));
  } else if (layer.bias.defined()) {
    at::addmm_out(out, layer.bias, x, layer.weight.t());
  } else {
    at::mm_out(out, x, layer.weight.t());
  }
}

Tensors products_in_pieces(const at::Tensor& x, Layers layers, const Group& group, Fp8 fp8) {
  const int64_t batch = x.size(0);
  const int64_t positions = x.size(kPositions);
  GatherInPieces gather(x, group);
  Tensors results;
  for (const LinearWeights& layer : layers) {
    results.push_back(
        at::empty({batch, positions * group.size(), layer.weight.size(0)}, x.options()));
  }
  gather.for_each([&](const Piece& piece, const at::Tensor& values) {
    const int64_t begin = piece.rank * positions + piece.positions.begin;
    for (size_t i = 0; i < layers.size(); ++i) {
      for (int64_t row = 0; row < batch; ++row) {
        write_product(values[row], layers[i], fp8,
                      results[i][row].narrow(0, begin, piece.positions.size()));
      }
    }
  });
  return results;
}

// One for all layers if they can be joined.
Tensors products(const at::Tensor& x, Layers layers, const TensorParallel& tensor, Fp8 fp8) {
  if (const auto joined = joined_layer(x, layers)) {
    return products(x, Layers(&*joined, 1), tensor, fp8);
  }
  if (tensor.sequence && tensor.async) return products_in_pieces(x, layers, tensor.group, fp8);
  const at::Tensor whole = tensor.sequence ? start_gather(x, tensor).wait() : x;
  Tensors results;
  for (const LinearWeights& layer : layers) {
    results.push_back(linear_product(whole, layer.weight, layer.bias, fp8));
  }
  return results;
}

Tensors results_of(const Tensors& products, Layers layers) {
  return products.size() == layers.size() ? products : split_result(products[0], layers);
}

// The sum over the layers.
at::Tensor input_gradient(std::span<const at::Tensor> gradients,
                          std::span<const at::Tensor> weights, Fp8 fp8) {
  at::Tensor sum = linear_input_gradient(gradients[0], weights[0], fp8);
  at::Tensor rows = sum.flatten(0, -2);
  for (size_t i = 1; i < gradients.size(); ++i) {
    const at::Tensor gradient = gradients[i].flatten(0, -2);
    if (takes_fp8(gradient, weights[i].t(), fp8)) {
      rows.add_(linear_input_gradient(gradient, weights[i], fp8));
    } else {
      rows.addmm_(gradient, weights[i]);
    }
  }
  return sum;
}

// The same, summed over the ranks while it is computed.
at::Tensor input_gradient_in_pieces(std::span<const at::Tensor> gradients,
                                    std::span<const at::Tensor> weights, const LayerCall& call) {
  const int64_t size = positions_per_rank(gradients[0], call.tensor);
  const auto compute = [&](const Piece& piece) {
    const int64_t begin = piece.rank * size + piece.positions.begin;
    Tensors cut;
    for (const at::Tensor& gradient : gradients) {
      cut.push_back(gradient.narrow(kPositions, begin, piece.positions.size()));
    }
    return input_gradient(cut, weights, call.fp8);
  };
  return reduce_scatter_in_pieces(compute, size, call.tensor.group);
}

class ColumnLinear : public autograd::Function<ColumnLinear> {
 public:
  // `parameters` are those of the call, as autograd's inputs.
  static autograd::variable_list forward(autograd::AutogradContext* context, const at::Tensor& x,
                                         at::TensorList /*parameters*/, const LayerCallPtr& call,
                                         KeptResults* kept) {
    autograd::variable_list saved{x};
    for (const LinearWeights& layer : call->layers) saved.push_back(layer.weight);
    context->save_for_backward(std::move(saved));
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    const auto compute = [&] { return products(x, call->layers, call->tensor, call->fp8); };
    return results_of(kept_or_computed(kept, compute), call->layers);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& given) {
    const LayerCall& call = LayerCall::of(*context);
    const autograd::variable_list saved = context->get_saved_variables();
    const size_t num_parameters = parameters_of(call.layers).size();
    autograd::variable_list made(1 + num_parameters + 2);

    // The gather overlaps with the input gradient, and its sum with the weight gradients, or with
    // itself if they are deferred.
    at::Tensor x = saved[0];
    std::optional<Work> gather;
    if (call.tensor.sequence && wanted_gradients(*context, 1, num_parameters) > 0) {
      gather.emplace(start_gather(x, call.tensor));
    }
    Tensors weights(saved.begin() + 1, saved.end());
    Tensors gradients = given;
    if (const auto joined = joined_layer(x, call.layers)) {
      weights = {joined->weight};
      gradients = {joined_gradient(given)};
    }
    const bool in_pieces = call.tensor.sequence && call.tensor.async && call.deferred;
    at::Tensor partial;
    if (context->needs_input_grad(0) && in_pieces) {
      made[0] = input_gradient_in_pieces(gradients, weights, call);
    } else if (context->needs_input_grad(0)) {
      partial = input_gradient(gradients, weights, call.fp8);
    }
    if (gather) x = std::move(*gather).wait();
    std::optional<Work> sum;
    if (partial.defined()) sum.emplace(start_sum(partial, call.tensor));
    std::vector<GradientOperands> operands;
    for (const at::Tensor& gradient : gradients) operands.push_back({x, gradient, gradient});
    make_gradients(*context, call, operands, made);
    if (sum) made[0] = std::move(*sum).wait();
    return made;
  }
};

}  // namespace

std::vector<at::Tensor> column_linear(const at::Tensor& x, std::span<const LinearWeights> layers,
                                      const Pass& pass) {
  const TensorParallel* const tensor = active(pass);
  if (tensor == nullptr) return linear(x, layers, pass);
  check_input(x);
  if (!at::GradMode::is_enabled()) {
    const auto compute = [&] { return products(x, layers, *tensor, pass.fp8); };
    return results_of(kept_or_computed(pass.kept, compute), layers);
  }
  return ColumnLinear::apply(x, at::TensorList(parameters_of(layers)),
                             c10::make_intrusive<LayerCall>(pass, layers), pass.kept);
}

at::Tensor column_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const Pass& pass) {
  const LinearWeights layer{weight, bias};
  return column_linear(x, {&layer, 1}, pass)[0];
}

}  // namespace tessera
