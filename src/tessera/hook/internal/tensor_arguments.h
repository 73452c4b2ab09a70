#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <optional>
#include <vector>

namespace tessera::hook::detail {

using Stack = std::vector<c10::IValue>;
using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;

/// The value with each tensor replaced: alone or in a list. Undefined tensors stay.
c10::IValue with_tensors(const c10::IValue& value, const TensorFunction& replace);
Stack with_tensors(const Stack& values, const TensorFunction& replace);

/// Calls `visit` with each defined tensor, in their order.
template <class Visitor>
void each_tensor(const c10::IValue& value, const Visitor& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) visit(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) visit(*tensor);
    }
  }
}

/// The defined tensors, in their order.
std::vector<at::Tensor> tensors_in(const c10::IValue& value);
std::vector<at::Tensor> tensors_in(const Stack& values);

}  // namespace tessera::hook::detail
