#include "tessera/hook/internal/tensor_arguments.h"

#include <optional>

namespace tessera::hook::detail {

c10::IValue with_tensors(const c10::IValue& value, const TensorFunction& replace) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() ? c10::IValue(replace(tensor)) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(tensor.defined() ? replace(tensor) : tensor);
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor && tensor->defined() ? replace(*tensor) : tensor);
    }
    return list;
  }
  return value;
}

Stack with_tensors(const Stack& values, const TensorFunction& replace) {
  Stack replaced;
  for (const c10::IValue& value : values) replaced.push_back(with_tensors(value, replace));
  return replaced;
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

std::vector<at::Tensor> tensors_in(const Stack& values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    for (const at::Tensor& tensor : tensors_in(value)) tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace tessera::hook::detail
