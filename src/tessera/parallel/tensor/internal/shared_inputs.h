#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::tensor::detail {

/// Converts a tensor that several layers read once, as long as one of them, or the backward pass,
/// holds the result.
class SharedInputs {
 public:
  /// `make(x)`, or its result for the same x and the same `what` before.
  at::Tensor get(const at::Tensor& x, const std::string& what,
                 const std::function<at::Tensor(const at::Tensor&)>& make);

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Entry {
    WeakTensor x;
    int64_t version = 0;  // Of x: it may change in place.
    bool has_gradient = false;
    std::string what;
    WeakTensor result;
  };
  std::vector<Entry> entries_ = {};
};

}  // namespace tessera::tensor::detail
