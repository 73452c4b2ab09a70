#include "tessera/tensor/dropout.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "tessera/base/check.h"
#include "tessera/tensor/random.h"

namespace tessera {

namespace {

/// `init` fills a mask of the elements to keep.
template <class Init>
at::Tensor masked(const at::Tensor& x, double p, Init init) {
  TSR_CHECK(p >= 0 && p <= 1, "the dropout probability must be from 0 to 1, but is ", p);
  const at::Tensor kept = at::empty(x.sizes(), x.options().dtype(at::kBool));
  init(kept, Bernoulli{1 - p});
  return x.mul(kept).mul(p < 1 ? 1 / (1 - p) : 0);
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, const Box& box, std::span<const int64_t> global_shape,
                   const RandomKey& key, double p) {
  return masked(x, p, [&](const at::Tensor& mask, const Distribution& kept) {
    init_(mask, box, global_shape, key, kept);
  });
}

at::Tensor dropout(const at::Tensor& x, std::span<const Box> pieces,
                   std::span<const int64_t> global_shape, const RandomKey& key, double p) {
  return masked(x, p, [&](const at::Tensor& mask, const Distribution& kept) {
    init_(mask, pieces, global_shape, key, kept);
  });
}

}  // namespace tessera
