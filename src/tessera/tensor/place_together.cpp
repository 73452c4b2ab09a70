#include "tessera/tensor/place_together.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <map>

#include "tessera/tensor/unallocated.h"

namespace tessera {

void place_together(const Parameters& parameters) {
  const at::NoGradGuard no_grad;
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    if (tensor.is_cuda() && !is_unallocated(tensor)) {
      by_dtype[tensor.scalar_type()].push_back(tensor);
    }
  }
  for (const auto& [dtype, tensors] : by_dtype) {
    int64_t size = 0;
    for (const at::Tensor& tensor : tensors) size += tensor.numel();
    const at::Tensor block = at::empty({size}, tensors[0].options().requires_grad(false));
    int64_t begin = 0;
    for (const at::Tensor& tensor : tensors) {
      const at::Tensor place = block.narrow(0, begin, tensor.numel()).view(tensor.sizes());
      place.copy_(tensor);
      tensor.set_data(place);
      begin += tensor.numel();
    }
  }
}

}  // namespace tessera
