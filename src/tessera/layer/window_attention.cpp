#include "tessera/layer/window_attention.h"

#include "tessera/layer/attention.h"
#include "tessera/layer/block_attention.h"

namespace tessera {

at::Tensor window_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, int64_t window, const Pass& pass) {
  const int64_t ranks = pass.context == nullptr ? 1 : pass.context->ranks();
  const int64_t positions = queries.size(1) * ranks;
  if (window == 0 || positions <= window) return causal_attention(queries, keys, values, pass);
  if (pass.context != nullptr) return pass.context->attend(queries, keys, values, window, pass);
  const AttentionInputs in{queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)};
  const AttentionBlocks blocks = row_blocks(in.q, pass.documents.get(), window);
  return custom_attention(in, block_attention(blocks), pass.kept).transpose(1, 2);
}

}  // namespace tessera
