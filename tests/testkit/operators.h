#pragma once

#include <ATen/record_function.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::testkit {

/// The calls of LibTorch's operators while it lives, of all threads. One at a time.
class OperatorCalls {
 public:
  OperatorCalls()
      : handle_(at::addGlobalCallback(at::RecordFunctionCallback(
            [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
              const std::lock_guard lock(mutex());
              list().emplace_back(call.name());
              return nullptr;
            }))) {
    list().clear();
  }
  ~OperatorCalls() { at::removeCallback(handle_); }
  OperatorCalls(const OperatorCalls&) = delete;
  OperatorCalls& operator=(const OperatorCalls&) = delete;

  /// "aten::linear", in the order of the calls.
  const std::vector<std::string>& names() const { return list(); }
  size_t count(const std::string& name) const {
    return static_cast<size_t>(std::ranges::count(list(), name));
  }

 private:
  static std::vector<std::string>& list() {
    static std::vector<std::string> names;
    return names;
  }
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }

  at::CallbackHandle handle_;
};

}  // namespace tessera::testkit
