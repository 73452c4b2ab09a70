#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Calls a function right before an operator reads one of some storages: in forward passes that
/// know nothing of it, and in backward passes, which read what was saved.
///
/// Watches the thread that makes it, and the backward passes started there. Operators that the
/// callback runs do not call it again. An exception of the callback reaches the operator's caller.
class StorageReads {
 public:
  /// The indices of the tensors whose storages one operator is about to read.
  using Callback = std::function<void(const std::vector<size_t>& indices)>;

  /// ConfigError if one of the storages is watched already.
  StorageReads(const std::vector<at::Tensor>& tensors, Callback callback);
  StorageReads(const StorageReads&) = delete;
  StorageReads& operator=(const StorageReads&) = delete;
  ~StorageReads();

  /// Whether an object of this class watches the tensor's storage.
  static bool watches(const at::Tensor& tensor);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// While it lives, operators of this thread do not call StorageReads.
class [[nodiscard]] UnwatchedReads {
 public:
  UnwatchedReads();
  UnwatchedReads(const UnwatchedReads&) = delete;
  UnwatchedReads& operator=(const UnwatchedReads&) = delete;
  ~UnwatchedReads();

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

}  // namespace tessera
