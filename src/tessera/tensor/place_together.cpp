#include "tessera/tensor/place_together.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tessera/tensor/unallocated.h"

namespace tessera {

void place_together(const Parameters& parameters) {
  const at::NoGradGuard no_grad;
  std::map<std::pair<at::ScalarType, int64_t>, std::vector<at::Tensor>> alike;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    if (!is_unallocated(tensor)) alike[{tensor.scalar_type(), tensor.dim()}].push_back(tensor);
  }
  for (const auto& [form, tensors] : alike) {
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
