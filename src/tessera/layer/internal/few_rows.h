#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tessera::layer::detail {

/// The product of a few rows with a large weight, as when a text is generated. The time is that of
/// reading the weight once, where LibTorch's matrix products need up to four times as long.
///
/// Whether few_rows_product() computes this product: float on a CPU with AVX2, at most 32 rows, and
/// nobody asks for gradients (inference mode). Then an ordinary product may have other bits.
bool is_of_few_rows(const at::Tensor& x, const at::Tensor& weight);

/// x·weightᵀ + bias. The bits of a row do not depend on the rows beside it, nor on the threads.
at::Tensor few_rows_product(const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias);

}  // namespace tessera::layer::detail
