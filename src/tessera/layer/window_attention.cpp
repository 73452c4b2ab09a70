#include "tessera/layer/window_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "tessera/base/check.h"
#include "tessera/layer/attention.h"

namespace tessera {
namespace {

// Which key each query may see, [positions, positions].
at::Tensor mask_of(int64_t positions, int64_t window, at::Device device) {
  const at::Tensor position = at::arange(positions, at::device(device).dtype(at::kLong));
  const at::Tensor distance = position.unsqueeze(1) - position.unsqueeze(0);
  return (distance >= 0).logical_and(distance < window);
}

}  // namespace

at::Tensor window_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, int64_t window, const Pass& pass) {
  const int64_t ranks = pass.context == nullptr ? 1 : pass.context->ranks();
  const int64_t positions = queries.size(1) * ranks;
  if (window == 0 || positions <= window) return causal_attention(queries, keys, values, pass);
  TSR_CHECK(ranks == 1 && pass.documents == nullptr, "a window of ", window, " of ", positions,
            " positions does not work with context parallelism and packed documents; choose "
            "sequences up to the window");
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(1, 2); };
  return at::scaled_dot_product_attention(
             heads_first(queries), heads_first(keys), heads_first(values),
             mask_of(positions, window, queries.device()), /*dropout_p=*/0, /*is_causal=*/false,
             /*scale=*/std::nullopt, /*enable_gqa=*/queries.size(2) != keys.size(2))
      .transpose(1, 2);
}

}  // namespace tessera
