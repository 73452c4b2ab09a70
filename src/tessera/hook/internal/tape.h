#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tessera/hook/internal/tensor_arguments.h"

namespace tessera::hook::detail {

/// Records operators instead of running them. The tensors that they make are deferred: they have a
/// shape and, until set_data, no memory. Each has a twin on the meta device, on which operators run
/// for the shapes of their results.
class Tape : public std::enable_shared_from_this<Tape> {
 public:
  /// Records the operator if it makes, reads or changes deferred tensors; runs it otherwise. An
  /// operator whose result depends on values runs at once, if they depend on no random numbers;
  /// otherwise StateError.
  void call(const c10::OperatorHandle& op, Stack& stack);

  /// The values of deferred tensors.
  std::vector<at::Tensor> values(const std::vector<at::Tensor>& tensors) const;
  /// The same, but by every operator of the tape: random numbers are those of a run without it.
  std::vector<at::Tensor> values_in_order(const std::vector<at::Tensor>& tensors) const;

  /// Whether the values of a tensor depend on memory of one of the others.
  bool depends_on(const at::Tensor& tensor, const std::vector<at::Tensor>& others) const;

  /// Takes the memory of a small new tensor, to which code may have written by its pointer.
  void take_memory(const at::Tensor& tensor);
  /// Makes a tensor that still has this memory an ordinary one.
  void leave_memory(const at::Tensor& tensor) const;

  /// The deferred tensors that still exist.
  std::vector<at::Tensor> alive() const;

 private:
  using Twins = std::vector<at::Tensor>;
  using Values = std::unordered_map<const c10::TensorImpl*, at::Tensor>;  // By twin.
  /// One operator, with twins in place of deferred tensors; or a tensor with its contents.
  struct Call {
    std::optional<c10::OperatorHandle> op = std::nullopt;
    Stack arguments = {};
    Twins read = {};
    Twins changed = {};  // Written or made.
    Twins made = {};     // The results, in their order.
    at::Tensor contents = {};

    Twins used() const;
    /// Runs it with the values of its arguments, and adds those of its results.
    void run(Values& values) const;
  };
  using Calls = std::vector<size_t>;

  at::Tensor twin_of(const at::Tensor& tensor) const;
  Calls history(const Twins& twins) const;
  Values replay(const Calls& calls, const Twins& wanted) const;
  std::vector<at::Tensor> values_of(const std::vector<at::Tensor>& tensors,
                                    const std::function<Calls(const Twins&)>& calls) const;
  bool is_random(const Calls& calls) const;
  void record(const c10::OperatorHandle& op, const Stack& arguments, const Stack& results);
  Stack results(const c10::OperatorHandle& op, const Stack& arguments, const Stack& made);
  at::Tensor deferred(const c10::OperatorHandle& op, const Stack& arguments,
                      const at::Tensor& twin);
  void run_now(const c10::OperatorHandle& op, const Stack& arguments, Stack& stack) const;

  std::vector<Call> calls_ = {};
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  std::vector<WeakTensor> alive_ = {};
};

/// The tape of a deferred tensor; null if it is not one.
std::shared_ptr<Tape> tape_of(const at::Tensor& tensor);

}  // namespace tessera::hook::detail
