#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/parallel/pipeline/stage.h"

namespace tessera::pipeline::detail {

/// What a receiver must know about a tensor before it arrives.
struct TensorForm {
  at::ScalarType dtype = at::kFloat;
  bool requires_grad = false;
  std::vector<int64_t> sizes = {};

  friend bool operator==(const TensorForm&, const TensorForm&) = default;
};
using TensorForms = std::vector<TensorForm>;

/// The forms of the tensors. `requires_grad` is false for all unless `training`.
TensorForms forms_of(const Tensors& tensors, bool training);
/// The forms of the gradients of such tensors: one for each that requires one.
TensorForms gradient_forms(const TensorForms& forms);
/// "float32 [4, 8], int64 [4]".
std::string to_string(const TensorForms& forms);

}  // namespace tessera::pipeline::detail
