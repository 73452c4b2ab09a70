#include "tessera/layer/internal/fused_attention.h"

#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <c10/core/GradMode.h>

#include <tuple>

namespace tessera::layer::detail {
namespace {

using Results = std::vector<at::Tensor>;

constexpr double kDropout = 0;
constexpr bool kCausal = true;

AttentionInputs gradients_of(const std::tuple<at::Tensor, at::Tensor, at::Tensor>& made) {
  return {std::get<0>(made), std::get<1>(made), std::get<2>(made)};
}

// Output, log-sum-exp, two offsets of ragged batches, two numbers of the random generator.
template <class Made>
Results results_of(const Made& made) {
  return {std::get<0>(made), std::get<1>(made), std::get<2>(made),
          std::get<3>(made), std::get<6>(made), std::get<7>(made)};
}

constexpr FusedAttention kCpu{
    [](const AttentionInputs& in) {
      const auto [output, log_sum_exp] =
          at::_scaled_dot_product_flash_attention_for_cpu(in.q, in.k, in.v, kDropout, kCausal);
      return Results{output, log_sum_exp};
    },
    [](const at::Tensor& gradient, const AttentionInputs& in, const Results& kept) {
      return gradients_of(at::_scaled_dot_product_flash_attention_for_cpu_backward(
          gradient, in.q, in.k, in.v, kept[0], kept[1], kDropout, kCausal));
    }};

constexpr FusedAttention kFlash{
    [](const AttentionInputs& in) {
      return results_of(
          at::_scaled_dot_product_flash_attention(in.q, in.k, in.v, kDropout, kCausal));
    },
    [](const at::Tensor& gradient, const AttentionInputs& in, const Results& kept) {
      return gradients_of(at::_scaled_dot_product_flash_attention_backward(
          gradient, in.q, in.k, in.v, kept[0], kept[1], kept[2], kept[3], in.q.size(2),
          in.k.size(2), kDropout, kCausal, kept[4], kept[5]));
    }};

constexpr FusedAttention kCudnn{
    [](const AttentionInputs& in) {
      return results_of(
          at::_scaled_dot_product_cudnn_attention(in.q, in.k, in.v, /*attn_bias=*/std::nullopt,
                                                  /*compute_log_sumexp=*/true, kDropout, kCausal));
    },
    [](const at::Tensor& gradient, const AttentionInputs& in, const Results& kept) {
      return gradients_of(at::_scaled_dot_product_cudnn_attention_backward(
          gradient, in.q, in.k, in.v, kept[0], kept[1], kept[4], kept[5], /*attn_bias=*/{}, kept[2],
          kept[3], in.q.size(2), in.k.size(2), kDropout, kCausal));
    }};

constexpr FusedAttention kEfficient{
    [](const AttentionInputs& in) {
      const auto [output, log_sum_exp, seed, offset] = at::_scaled_dot_product_efficient_attention(
          in.q, in.k, in.v, /*attn_bias=*/std::nullopt,
          /*compute_log_sumexp=*/true, kDropout, kCausal);
      return Results{output, log_sum_exp, seed, offset};
    },
    [](const at::Tensor& gradient, const AttentionInputs& in, const Results& kept) {
      const auto [q, k, v, bias] = at::_scaled_dot_product_efficient_attention_backward(
          gradient, in.q, in.k, in.v, /*attn_bias=*/{}, kept[0], kept[1], kept[2], kept[3],
          kDropout, {true, true, true, false}, kCausal);
      return AttentionInputs{q, k, v};
    }};

// The choice depends on whether gradients are wanted: the first run, which has none, and the second
// must choose the same.
at::SDPBackend choice_for(const AttentionInputs& in) {
  const at::AutoGradMode with_gradients(true);
  const auto trained = [](const at::Tensor& x) { return x.detach().requires_grad_(); };
  return static_cast<at::SDPBackend>(at::_fused_sdp_choice(
      trained(in.q), trained(in.k), trained(in.v), /*attn_mask=*/std::nullopt, kDropout, kCausal,
      /*scale=*/std::nullopt, in.q.size(1) != in.k.size(1)));
}

}  // namespace

const FusedAttention* fused_attention_for(const AttentionInputs& inputs) {
  const at::SDPBackend choice = choice_for(inputs);
  const bool on_gpu = inputs.q.is_cuda();
  if (choice == at::SDPBackend::flash_attention && !on_gpu) return &kCpu;
  // LibTorch pads other head sizes for the kernels of a GPU.
  if (!on_gpu || inputs.q.size(3) % 8 != 0) return nullptr;
  if (choice == at::SDPBackend::flash_attention) return &kFlash;
  if (choice == at::SDPBackend::cudnn_attention) return &kCudnn;
  return choice == at::SDPBackend::efficient_attention ? &kEfficient : nullptr;
}

}  // namespace tessera::layer::detail
