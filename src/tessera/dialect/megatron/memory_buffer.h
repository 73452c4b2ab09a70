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

/// Scratch memory by name and dtype. It only grows: a request for the same size or less returns the
/// same memory with its current content.
class GlobalMemoryBuffer {
 public:
  explicit GlobalMemoryBuffer(c10::Device device) : device_(device) {}

  /// Uninitialised, without gradient. ConfigError for a shape without dimensions.
  at::Tensor get_tensor(const std::vector<int64_t>& tensor_shape, at::ScalarType dtype,
                        const std::string& name);
  /// One per name and dtype requested so far.
  int64_t num_buffers() const { return static_cast<int64_t>(buffers_.size()); }

 private:
  c10::Device device_;
  std::map<std::pair<std::string, at::ScalarType>, at::Tensor> buffers_;
};

/// Symmetric memory, which all ranks of a tensor-parallel group could access. Tessera has none.
class GlobalSymmetricMemoryBuffer {
 public:
  /// Always nullopt, as in Megatron if PyTorch lacks symmetric memory.
  std::optional<at::Tensor> maybe_get_tensor(const std::vector<int64_t>& tensor_shape,
                                             at::ScalarType dtype) const;
};

}  // namespace megatron
}  // namespace tessera
