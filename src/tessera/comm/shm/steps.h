#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "tessera/comm/shm/counter.h"

namespace tessera::comm::detail::shm {

/// A function that stops wherever it has to wait: `co_await` an Awaited. Any thread can go on with
/// it, one at a time.
class Steps {
 public:
  struct Promise {
    Awaited awaited = {};
    std::exception_ptr error = nullptr;

    Steps get_return_object() { return Steps(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }

    struct Stop {
      Awaited awaited;
      bool await_ready() const { return awaited.reached(); }
      void await_suspend(std::coroutine_handle<Promise> handle) const {
        handle.promise().awaited = awaited;
      }
      void await_resume() const {}
    };
    Stop await_transform(const Awaited& awaited) { return Stop{awaited}; }
  };
  using promise_type = Promise;  // The name that the language prescribes.
  using Handle = std::coroutine_handle<Promise>;

  Steps() = default;
  explicit Steps(Handle handle) : handle_(handle) {}
  Steps(Steps&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Steps& operator=(Steps&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Steps() {
    if (handle_) handle_.destroy();
  }

  /// Goes on until it has to wait or has ended.
  void advance() {
    const Awaited& awaited = handle_.promise().awaited;
    while (!handle_.done() && (awaited.counter == nullptr || awaited.reached())) handle_.resume();
  }
  bool ended() const { return handle_.done(); }
  const Awaited& awaited() const { return handle_.promise().awaited; }
  const std::exception_ptr& error() const { return handle_.promise().error; }

 private:
  Handle handle_;
};

}  // namespace tessera::comm::detail::shm
