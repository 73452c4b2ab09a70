#include "tessera/layer/token_order.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/tensor/copied_to.h"

namespace tessera {
namespace {

namespace autograd = torch::autograd;

// Sorts in two passes over the pairs, one to count, one to place.
TokenOrder order_on_cpu(const at::Tensor& experts, int64_t num_experts) {
  const int64_t pairs = experts.numel();
  const at::Tensor flat = experts.contiguous();
  const int64_t* const expert = flat.const_data_ptr<int64_t>();
  const auto is_known = [&](int64_t i) { return 0 <= expert[i] && expert[i] < num_experts; };
  TokenOrder order;
  order.counts.resize(static_cast<size_t>(num_experts));
  int64_t kept = 0;
  for (int64_t i = 0; i < pairs; ++i) {
    if (!is_known(i)) continue;
    ++order.counts[static_cast<size_t>(expert[i])];
    ++kept;
  }
  order.tokens = at::empty({kept}, at::kLong);
  order.rows = at::zeros(experts.sizes(), at::kLong);
  if (kept < pairs) order.kept = at::logical_and(experts >= 0, experts < num_experts);
  std::vector<int64_t> next(order.counts.size());
  for (size_t e = 1; e < next.size(); ++e) next[e] = next[e - 1] + order.counts[e - 1];
  auto* const tokens = order.tokens.mutable_data_ptr<int64_t>();
  auto* const rows = order.rows.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < pairs; ++i) {
    if (!is_known(i)) continue;
    rows[i] = next[static_cast<size_t>(expert[i])]++;
    tokens[rows[i]] = i / experts.size(1);
  }
  return order;
}

// Of [tokens, top_k, width].
at::Tensor rows_of_pairs(const at::Tensor& rows, const at::Tensor& index) {
  return rows.index_select(0, index.flatten()).view({index.size(0), index.size(1), rows.size(1)});
}

// The backward of a copy is a sum over each token's rows, so it needs no atomic additions.
struct Rows : autograd::Function<Rows> {
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            const TokenOrder* order) {
    context->saved_data["rows"] = order->rows;
    context->saved_data["kept"] = order->kept;
    context->saved_data["row_scale"] = order->row_scale;
    return x.index_select(0, order->tokens);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const at::Tensor rows = context->saved_data["rows"].toTensor();
    const at::Tensor kept = context->saved_data["kept"].toTensor();
    at::Tensor pairs =
        gradients[0].size(0) == 0
            ? at::zeros({rows.size(0), rows.size(1), gradients[0].size(1)}, gradients[0].options())
            : rows_of_pairs(gradients[0], rows);
    if (kept.defined()) pairs = pairs * kept.unsqueeze(-1);
    const double scale = context->saved_data["row_scale"].toDouble();
    const at::Tensor sum = pairs.sum(1);
    return {scale == 1 ? sum : sum / scale, {}};
  }
};

struct Combine : autograd::Function<Combine> {
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& rows,
                            const at::Tensor& weights, const TokenOrder* order) {
    const at::Tensor pairs =
        order->tokens.numel() == 0
            ? at::zeros({weights.size(0), weights.size(1), rows.size(1)}, rows.options())
            : rows_of_pairs(rows, order->rows);
    const at::Tensor used = order->kept.defined() ? weights * order->kept : weights;
    context->save_for_backward({pairs, weights});
    context->saved_data["tokens"] = order->tokens;
    context->saved_data["rows"] = order->rows;
    context->saved_data["kept"] = order->kept;
    context->saved_data["row_scale"] = order->row_scale;
    // Pair by pair: LibTorch's products of so small matrices are slow.
    const auto weight = [&](int64_t i) { return used.select(1, i).unsqueeze(1); };
    at::Tensor sum = pairs.select(1, 0) * weight(0);
    for (int64_t i = 1; i < pairs.size(1); ++i) sum.addcmul_(pairs.select(1, i), weight(i));
    return sum;
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor tokens = context->saved_data["tokens"].toTensor();
    const at::Tensor rows = context->saved_data["rows"].toTensor();
    const at::Tensor kept = context->saved_data["kept"].toTensor();
    const at::Tensor& weights = saved[1];
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor of_weights = (saved[0] * gradient.unsqueeze(1)).sum(-1);
    if (kept.defined()) of_weights = of_weights * kept;
    // The weights by row.
    at::Tensor by_row = at::zeros({tokens.numel()}, weights.options());
    if (kept.defined()) {
      by_row.index_put_({rows.masked_select(kept)}, weights.masked_select(kept));
    } else {
      by_row.scatter_(0, rows.flatten(), weights.flatten());
    }
    by_row.mul_(context->saved_data["row_scale"].toDouble());
    const at::Tensor of_rows = gradient.index_select(0, tokens).mul_(by_row.unsqueeze(1));
    return {of_rows, of_weights, {}};
  }
};

}  // namespace

TokenOrder order_by_expert(const at::Tensor& experts, int64_t num_experts) {
  TokenOrder order = order_on_cpu(experts.cpu(), num_experts);
  order.tokens = copied_to(experts.device(), order.tokens);
  order.rows = copied_to(experts.device(), order.rows);
  if (order.kept.defined()) order.kept = copied_to(experts.device(), order.kept);
  return order;
}

at::Tensor expert_rows(const at::Tensor& x, const TokenOrder& order) {
  return Rows::apply(x, &order);
}

at::Tensor combine_rows(const at::Tensor& rows, const at::Tensor& weights,
                        const TokenOrder& order) {
  return Combine::apply(rows, weights.to(rows.scalar_type()), &order);
}

}  // namespace tessera
