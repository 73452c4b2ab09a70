#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

/// A look at every operator before it runs: LibTorch's dispatcher offers it to us first, under a
/// key that only we use.
namespace tessera::hook::detail {

inline constexpr c10::DispatchKey kOperatorMode = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Runs the operator, or something else in its place. Operators that it runs are not offered again.
using OperatorHandler = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// While it lives, operators of this thread, and of the backward passes that it starts, are
/// offered. They may be nested.
class [[nodiscard]] OfferOperators {
 public:
  OfferOperators();
  OfferOperators(const OfferOperators&) = delete;
  OfferOperators& operator=(const OfferOperators&) = delete;
  ~OfferOperators();
};

/// Who gets the operators of this thread, unless nobody: then watched storages are looked up.
class [[nodiscard]] HandleOperators {
 public:
  explicit HandleOperators(OperatorHandler handler);
  HandleOperators(const HandleOperators&) = delete;
  HandleOperators& operator=(const HandleOperators&) = delete;
  ~HandleOperators();

 private:
  OperatorHandler previous_;
  OfferOperators offer_;
};

/// Looks up the storages that the operator reads, then runs it, or what overrides it.
void run_watched(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Whether an OperatorOverride has run in place of the operator.
bool run_override(const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace tessera::hook::detail
