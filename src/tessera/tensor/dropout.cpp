#include "tessera/tensor/dropout.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include "tessera/base/check.h"
#include "tessera/tensor/random.h"

namespace tessera {

at::Tensor dropout(const at::Tensor& x, const Box& box, std::span<const int64_t> global_shape,
                   const RandomKey& key, double p) {
  TSR_CHECK(p >= 0 && p <= 1, "dropout with probability ", p,
            " does not exist; choose one from 0 to 1");
  const at::Tensor kept = at::empty(x.sizes(), x.options().dtype(at::kBool));
  init_(kept, box, global_shape, key, Bernoulli{1 - p});
  return x * kept * (p < 1 ? 1 / (1 - p) : 0);
}

}  // namespace tessera
