#include "tessera/layer/norm.h"

#include <ATen/ops/rms_norm.h>

namespace tessera {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return at::rms_norm(x, weight.sizes(), weight, eps);
}

}  // namespace tessera
