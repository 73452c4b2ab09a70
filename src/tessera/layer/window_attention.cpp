#include "tessera/layer/window_attention.h"

#include "tessera/layer/attention.h"
#include "tessera/layer/block_attention.h"

namespace tessera {

at::Tensor window_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, int64_t window, const Pass& pass) {
  if (pass.context != nullptr) return pass.context->attend(queries, keys, values, window, pass);
  if (window == 0 || queries.size(1) <= window) {
    return causal_attention(queries, keys, values, pass);
  }
  const AttentionInputs in{queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)};
  const AttentionBlocks blocks = row_blocks(in.q, pass.documents.get(), window);
  return custom_attention(in, block_attention(blocks), pass.kept).transpose(1, 2);
}

}  // namespace tessera
