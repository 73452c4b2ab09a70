#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera {
namespace megatron TSR_API {

/// Scratch memory by name and dtype, which only grows: who asks again for as much or less gets the
/// same memory, with whatever is in it.
class GlobalMemoryBuffer {
 public:
  explicit GlobalMemoryBuffer(c10::Device device) : device_(device) {}

  /// Not initialised, without gradient. A shape of no dimensions raises ConfigError.
  at::Tensor get_tensor(const std::vector<int64_t>& tensor_shape, at::ScalarType dtype,
                        const std::string& name);
  int64_t num_buffers() const { return static_cast<int64_t>(buffers_.size()); }

 private:
  c10::Device device_;
  std::map<std::pair<std::string, at::ScalarType>, at::Tensor> buffers_;
};

/// Memory that the ranks of a tensor-parallel group could all reach. Tessera has none, so it
/// answers as Megatron's does where PyTorch has none: nothing.
class GlobalSymmetricMemoryBuffer {
 public:
  std::optional<at::Tensor> maybe_get_tensor(const std::vector<int64_t>& tensor_shape,
                                             at::ScalarType dtype) const;
};

}  // namespace megatron
}  // namespace tessera
