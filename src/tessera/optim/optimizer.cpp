#include "tessera/optim/optimizer.h"

#include <ATen/ops/scalar_tensor.h>

namespace tessera {

void Optimizer::step(double learning_rate, double gradient_factor) {
  step(learning_rate, at::scalar_tensor(gradient_factor, at::kDouble));
}

}  // namespace tessera
