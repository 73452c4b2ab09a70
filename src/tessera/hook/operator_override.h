#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <vector>

#include "tessera/base/export.h"

namespace c10 {
class OperatorHandle;
}

namespace tessera TSR_API {

/// Runs a function in place of the operators that have some tensors, or views of them, as
/// arguments: in forward passes that know nothing of it, and in backward passes.
///
/// A tensor is known by its identity, so it may get other data or another storage. Acts on the
/// thread that makes it, and on the backward passes started there. Operators that the function runs
/// are not overridden again. StorageReads see the operator first.
class OperatorOverride {
 public:
  /// Takes the operator's arguments from the end of the stack and puts its results there; or
  /// returns false and leaves the stack as it is: then the operator runs.
  using Function =
      std::function<bool(const c10::OperatorHandle& op, std::vector<c10::IValue>& stack)>;

  /// ConfigError if one of the tensors has an override already.
  OperatorOverride(const std::vector<at::Tensor>& tensors, Function function);
  OperatorOverride(const OperatorOverride&) = delete;
  OperatorOverride& operator=(const OperatorOverride&) = delete;
  ~OperatorOverride();

  /// Whether an object of this class overrides operators on the tensor.
  static bool overrides(const at::Tensor& tensor);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
