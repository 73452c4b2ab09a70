#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tessera::layer::detail {

/// Matrices, or vectors, that lie behind each other in one storage, as one. None if they do not.
inline std::optional<at::Tensor> joined_rows(at::TensorList parts) {
  const at::Tensor& first = parts[0];
  const at::IntArrayRef row = first.sizes().slice(1);
  const int64_t width = first.dim() == 1 ? 1 : first.size(1);
  int64_t rows = 0;
  for (const at::Tensor& part : parts) {
    const bool follows = part.is_alias_of(first) && part.is_contiguous() &&
                         part.sizes().slice(1) == row &&
                         part.storage_offset() == first.storage_offset() + rows * width;
    if (!follows) return std::nullopt;
    rows += part.size(0);
  }
  if (first.dim() == 1) return first.detach().as_strided({rows}, {1});
  return first.detach().as_strided({rows, width}, {width, 1});
}

/// The part of each matrix, or vector, in one that joins the rows of all.
inline std::vector<at::Tensor> split_rows(at::Tensor joined, at::TensorList parts) {
  if (parts.size() == 1) return {std::move(joined)};
  std::vector<int64_t> rows;
  for (const at::Tensor& part : parts) rows.push_back(part.size(0));
  return joined.split_with_sizes(rows, 0);
}

}  // namespace tessera::layer::detail
