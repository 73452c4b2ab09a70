#include "tessera/dialect/megatron/memory_buffer.h"

#include <ATen/ops/empty.h>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"

namespace tessera::megatron {

at::Tensor GlobalMemoryBuffer::get_tensor(const std::vector<int64_t>& tensor_shape,
                                          at::ScalarType dtype, const std::string& name) {
  TSR_CHECK(!tensor_shape.empty(), "buffer '", name,
            "' was asked for a shape of no dimensions; ask for {1}");
  for (const int64_t size : tensor_shape) {
    TSR_CHECK(size >= 0, "buffer '", name, "' was asked for the shape (", join(tensor_shape, ", "),
              "); sizes start at 0");
  }
  const int64_t needed = checked_product(tensor_shape, "the number of elements of a buffer");
  at::Tensor& buffer = buffers_[{name, dtype}];
  if (!buffer.defined() || buffer.numel() < needed) {
    buffer = at::empty({needed}, at::TensorOptions(dtype).device(device_));
  }
  return buffer.narrow(0, 0, needed).view(tensor_shape);
}

std::optional<at::Tensor> GlobalSymmetricMemoryBuffer::maybe_get_tensor(const std::vector<int64_t>&,
                                                                        at::ScalarType) const {
  return std::nullopt;
}

}  // namespace tessera::megatron
