#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace tessera::layer::detail {

/// Matrices that lie behind each other in one storage, as one. None if they do not.
inline std::optional<at::Tensor> joined_rows(at::TensorList matrices) {
  const at::Tensor& first = matrices[0];
  int64_t rows = 0;
  for (const at::Tensor& matrix : matrices) {
    const bool follows = matrix.is_alias_of(first) && matrix.is_contiguous() &&
                         matrix.size(1) == first.size(1) &&
                         matrix.storage_offset() == first.storage_offset() + rows * first.size(1);
    if (!follows) return std::nullopt;
    rows += matrix.size(0);
  }
  return first.detach().as_strided({rows, first.size(1)}, {first.size(1), 1});
}

}  // namespace tessera::layer::detail
