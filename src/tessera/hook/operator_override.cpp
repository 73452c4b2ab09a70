#include "tessera/hook/operator_override.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/hook/internal/operator_mode.h"
#include "tessera/hook/internal/tensor_arguments.h"

namespace tessera {

using namespace hook::detail;

namespace {

/// The overrides of the process by tensor: backward passes on a GPU run on threads of the engine.
class Overrides {
 public:
  void add(const at::Tensor& tensor, const OperatorOverride::Function* function) {
    const std::unique_lock lock(mutex_);
    functions_.emplace(tensor.unsafeGetTensorImpl(), function);
  }
  void remove(const at::Tensor& tensor) {
    const std::unique_lock lock(mutex_);
    functions_.erase(tensor.unsafeGetTensorImpl());
  }
  bool empty() const {
    const std::shared_lock lock(mutex_);
    return functions_.empty();
  }
  /// Null if there is none.
  const OperatorOverride::Function* find(const at::TensorBase& tensor) const {
    const std::shared_lock lock(mutex_);
    const auto found = functions_.find(tensor.unsafeGetTensorImpl());
    return found == functions_.end() ? nullptr : found->second;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, const OperatorOverride::Function*> functions_;
};

// Never destroyed: the engine's threads may outlive static objects.
Overrides& known_overrides() {
  static auto* const known = new Overrides;
  return *known;
}

}  // namespace

bool hook::detail::run_override(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (known_overrides().empty()) return false;
  const OperatorOverride::Function* function = nullptr;
  for (const c10::IValue& input : torch::jit::last(stack, op.schema().arguments().size())) {
    each_tensor(input, [&](const at::Tensor& tensor) {
      if (function == nullptr) function = known_overrides().find(tensor);
      if (function == nullptr && tensor.is_view()) {
        function = known_overrides().find(tensor._base());
      }
    });
  }
  return function != nullptr && (*function)(op, stack);
}

struct OperatorOverride::State {
  State(std::vector<at::Tensor> overridden, Function run)
      : tensors(std::move(overridden)), function(std::move(run)) {}
  std::vector<at::Tensor> tensors;
  Function function;
  OfferOperators offer = {};
};

OperatorOverride::OperatorOverride(const std::vector<at::Tensor>& tensors, Function function) {
  for (const at::Tensor& tensor : tensors) {
    TSR_CHECK(!overrides(tensor), "operators on a tensor are overridden already; do it once");
  }
  state_ = std::make_unique<State>(tensors, std::move(function));
  for (const at::Tensor& tensor : tensors) known_overrides().add(tensor, &state_->function);
}

OperatorOverride::~OperatorOverride() {
  for (const at::Tensor& tensor : state_->tensors) known_overrides().remove(tensor);
}

bool OperatorOverride::overrides(const at::Tensor& tensor) {
  return known_overrides().find(tensor) != nullptr;
}

}  // namespace tessera
