#include "tessera/tensor/copied_to.h"

namespace tessera {

at::Tensor copied_to(at::Device device, const at::Tensor& tensor) {
  const bool leaves_host = tensor.is_cpu() && device.is_cuda();
  if (!leaves_host) return tensor.to(device);
  return tensor.contiguous().pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace tessera
