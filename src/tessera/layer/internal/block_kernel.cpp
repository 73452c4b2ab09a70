#include "tessera/layer/internal/block_kernel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <limits>
#include <tuple>

namespace tessera::layer::detail {
namespace {

constexpr double kDropout = 0;

AttentionInputs gradients_of(const std::tuple<at::Tensor, at::Tensor, at::Tensor>& made) {
  return {std::get<0>(made), std::get<1>(made), std::get<2>(made)};
}

constexpr BlockKernel kCpu{
    [](const AttentionInputs& in, bool causal) {
      const auto [output, log_sum_exp] =
          at::_scaled_dot_product_flash_attention_for_cpu(in.q, in.k, in.v, kDropout, causal);
      return BlockResults{output, log_sum_exp};
    },
    [](const at::Tensor& gradient, const AttentionInputs& in, const BlockResults& results,
       bool causal) {
      return gradients_of(at::_scaled_dot_product_flash_attention_for_cpu_backward(
          gradient, in.q, in.k, in.v, results.output, results.log_sum_exp, kDropout, causal));
    }};

constexpr BlockKernel kGpu{
    [](const AttentionInputs& in, bool causal) {
      const auto made = at::_scaled_dot_product_flash_attention(in.q, in.k, in.v, kDropout, causal);
      return BlockResults{std::get<0>(made), std::get<1>(made)};
    },
    [](const at::Tensor& gradient, const AttentionInputs& in, const BlockResults& results,
       bool causal) {
      // Only dropout reads the state of the random generator.
      const at::TensorOptions numbers = in.q.options().dtype(at::kUInt64);
      return gradients_of(at::_scaled_dot_product_flash_attention_backward(
          gradient, in.q, in.k, in.v, results.output, results.log_sum_exp.contiguous(),
          /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, in.q.size(2), in.k.size(2), kDropout, causal,
          at::empty({2}, numbers), at::empty({}, numbers)));
    }};

// One key-value head per query head.
at::Tensor repeated(const at::Tensor& heads, const at::Tensor& queries) {
  const int64_t times = queries.size(1) / heads.size(1);
  return times == 1 ? heads : heads.repeat_interleave(times, 1);
}

at::Tensor summed(const at::Tensor& gradient, const at::Tensor& heads) {
  const int64_t times = gradient.size(1) / heads.size(1);
  return times == 1 ? gradient : gradient.unflatten(1, {-1, times}).sum(2);
}

double scale_of(const at::Tensor& queries) {
  return 1 / std::sqrt(static_cast<double>(queries.size(3)));
}

// At least in float32.
at::Tensor wide(const at::Tensor& tensor) {
  return tensor.element_size() < 4 ? tensor.to(at::kFloat) : tensor;
}

at::Tensor scores_of(const at::Tensor& queries, const at::Tensor& keys, bool causal) {
  at::Tensor scores = at::matmul(queries * scale_of(queries), keys.transpose(2, 3));
  if (causal) {
    const at::Tensor later =
        at::ones({queries.size(2), keys.size(2)}, queries.options().dtype(at::kBool)).triu_(1);
    scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
  }
  return scores;
}

constexpr BlockKernel kPlain{
    [](const AttentionInputs& in, bool causal) {
      const at::Tensor q = wide(in.q);
      const at::Tensor scores = scores_of(q, wide(repeated(in.k, q)), causal);
      const at::Tensor total = at::logsumexp(scores, {3});
      const at::Tensor weights = (scores - total.unsqueeze(3)).exp_();
      return BlockResults{at::matmul(weights, wide(repeated(in.v, q))), total};
    },
    [](const at::Tensor& gradient, const AttentionInputs& in, const BlockResults& results,
       bool causal) {
      const at::Tensor q = wide(in.q);
      const at::Tensor k = wide(repeated(in.k, q));
      const at::Tensor g = wide(gradient);
      const at::Tensor weights =
          (scores_of(q, k, causal) - results.log_sum_exp.unsqueeze(3)).exp_();
      const at::Tensor row_sums = (g * wide(results.output)).sum(3, /*keepdim=*/true);
      const at::Tensor of_weights = at::matmul(g, wide(repeated(in.v, q)).transpose(2, 3));
      const at::Tensor of_scores = weights * (of_weights - row_sums) * scale_of(q);
      return AttentionInputs{at::matmul(of_scores, k),
                             summed(at::matmul(of_scores.transpose(2, 3), q), in.k),
                             summed(at::matmul(weights.transpose(2, 3), g), in.v)};
    }};

}  // namespace

at::Tensor for_blocks(const at::Tensor& tensor) {
  const at::Tensor made = tensor.is_cpu() ? wide(tensor) : tensor;
  return made.stride(-1) == 1 ? made : made.contiguous();
}

const BlockKernel& plain_block_kernel() {
  return kPlain;
}

const BlockKernel& block_kernel_for(const at::Tensor& queries) {
  if (queries.is_cpu()) return kCpu;
  const bool half = queries.scalar_type() == at::kBFloat16 || queries.scalar_type() == at::kHalf;
  const int64_t size = queries.size(3);
  return queries.is_cuda() && half && size % 8 == 0 && size <= 256 ? kGpu : kPlain;
}

}  // namespace tessera::layer::detail
