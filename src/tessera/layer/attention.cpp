#include "tessera/layer/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace tessera {

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values) {
  const bool grouped = queries.size(2) != keys.size(2);
  return at::scaled_dot_product_attention(
             queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2),
             /*attn_mask=*/std::nullopt, /*dropout_p=*/0, /*is_causal=*/true,
             /*scale=*/std::nullopt, grouped)
      .transpose(1, 2);
}

}  // namespace tessera
