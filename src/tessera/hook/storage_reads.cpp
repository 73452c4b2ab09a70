#include "tessera/hook/storage_reads.h"

#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/hook/internal/operator_mode.h"
#include "tessera/hook/internal/tensor_arguments.h"

namespace tessera {

using namespace hook::detail;

namespace {

struct Watched {
  const StorageReads::Callback* callback;
  size_t index;
};

/// All watched storages of the process: backward passes on a GPU run on threads of the engine.
class Registry {
 public:
  void add(const at::Tensor& tensor, Watched watched) {
    const std::unique_lock lock(mutex_);
    storages_.emplace(key(tensor), watched);
  }
  void remove(const at::Tensor& tensor) {
    const std::unique_lock lock(mutex_);
    storages_.erase(key(tensor));
  }
  std::optional<Watched> find(const at::Tensor& tensor) const {
    if (!tensor.has_storage()) return std::nullopt;
    const std::shared_lock lock(mutex_);
    const auto found = storages_.find(key(tensor));
    return found == storages_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  static const c10::StorageImpl* key(const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
  }
  mutable std::shared_mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Watched> storages_;
};

// Never destroyed: the engine's threads may outlive static objects.
Registry& registry() {
  static auto* const known = new Registry;
  return *known;
}

}  // namespace

void hook::detail::run_watched(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // In the order of the arguments, which is the same on all ranks.
  std::vector<std::pair<const StorageReads::Callback*, std::vector<size_t>>> reads;
  for (const c10::IValue& input : torch::jit::last(*stack, op.schema().arguments().size())) {
    each_tensor(input, [&](const at::Tensor& tensor) {
      const std::optional<Watched> watched = registry().find(tensor);
      if (!watched) return;
      const auto same = [&](const auto& known) { return known.first == watched->callback; };
      const auto known = std::ranges::find_if(reads, same);
      if (known == reads.end()) {
        reads.push_back({watched->callback, {watched->index}});
      } else {
        known->second.push_back(watched->index);
      }
    });
  }
  for (const auto& [callback, indices] : reads) (*callback)(indices);
  if (!run_override(op, *stack)) op.callBoxed(stack);
}

struct StorageReads::State {
  State(std::vector<at::Tensor> watched, Callback called)
      : tensors(std::move(watched)), callback(std::move(called)) {}
  std::vector<at::Tensor> tensors;
  Callback callback;
  OfferOperators offer = {};
};

StorageReads::StorageReads(const std::vector<at::Tensor>& tensors, Callback callback)
    : state_(std::make_unique<State>(tensors, std::move(callback))) {
  for (const at::Tensor& tensor : tensors) {
    TSR_CHECK(!watches(tensor), "a tensor's storage is watched already; watch it once");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    registry().add(tensors[i], {.callback = &state_->callback, .index = i});
  }
}

StorageReads::~StorageReads() {
  for (const at::Tensor& tensor : state_->tensors) registry().remove(tensor);
}

bool StorageReads::watches(const at::Tensor& tensor) {
  return registry().find(tensor).has_value();
}

struct UnwatchedReads::Guard {
  c10::impl::ExcludeDispatchKeyGuard guard{kOperatorMode};
};

UnwatchedReads::UnwatchedReads() : guard_(std::make_unique<Guard>()) {}
UnwatchedReads::~UnwatchedReads() = default;

}  // namespace tessera
