#include "tessera/layer/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include "tessera/layer/block_attention.h"
#include "tessera/layer/internal/fused_attention.h"

namespace tessera {

using namespace layer::detail;

namespace {

at::Tensor attention(const AttentionInputs& in) {
  const bool grouped = in.q.size(1) != in.k.size(1);
  return at::scaled_dot_product_attention(in.q, in.k, in.v, /*attn_mask=*/std::nullopt,
                                          /*dropout_p=*/0, /*is_causal=*/true,
                                          /*scale=*/std::nullopt, grouped);
}

at::Tensor kept_attention(const AttentionInputs& in, KeptResults& store) {
  const FusedAttention* const fused = fused_attention_for(in);
  if (fused == nullptr) return attention(in);  // Both runs compute it.
  return custom_attention(in, {fused->forward, fused->backward}, &store);
}

at::Tensor whole_attention(const AttentionInputs& in, const Pass& pass) {
  if (pass.documents != nullptr) {
    return custom_attention(in, block_attention(row_blocks(in.q, pass.documents.get())), pass.kept);
  }
  return pass.kept == nullptr ? attention(in) : kept_attention(in, *pass.kept);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const Pass& pass) {
  if (pass.context != nullptr)
    return pass.context->attend(queries, keys, values, /*window=*/0, pass);
  const AttentionInputs in{queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)};
  return whole_attention(in, pass).transpose(1, 2);
}

}  // namespace tessera
