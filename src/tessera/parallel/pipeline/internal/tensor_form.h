#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/parallel/pipeline/stage.h"

namespace tessera::pipeline::detail {

/// What a receiver has to know of a tensor before it comes.
struct TensorForm {
  at::ScalarType dtype = at::kFloat;
  bool requires_grad = false;
  std::vector<int64_t> sizes = {};

  friend bool operator==(const TensorForm&, const TensorForm&) = default;
};
using TensorForms = std::vector<TensorForm>;

/// Those of the tensors; none requires a gradient unless the step has a backward.
TensorForms forms_of(const Tensors& tensors, bool training);
/// The gradients that come back for such tensors: one for each that requires one.
TensorForms gradient_forms(const TensorForms& forms);
/// "float32 [4, 8], int64 [4]".
std::string to_string(const TensorForms& forms);

}  // namespace tessera::pipeline::detail
