#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "tessera/comm/shm/board.h"

namespace tessera::comm::detail::shm {

/// A function that stops wherever it has to wait: `co_await` an Awaited or AllRanks. Any thread can
/// go on with it, one at a time.
class Steps {
 public:
  struct Promise {
    Awaited awaited = {};
    AllRanks ranks = {};
    std::exception_ptr error = nullptr;

    Steps get_return_object() { return Steps(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }

    struct Stop {
      Promise& promise;
      bool await_ready() const { return promise.can_go_on(); }
      void await_suspend(std::coroutine_handle<Promise>) const {}
      void await_resume() const {}
    };
    Stop await_transform(const Awaited& one) {
      awaited = one;
      ranks = {};
      return Stop{*this};
    }
    Stop await_transform(const AllRanks& all) {
      awaited = {};
      ranks = all;
      return Stop{*this};
    }
    bool can_go_on() {
      if (awaited.counter != nullptr && !awaited.reached()) return false;
      awaited = ranks.missing();
      return awaited.counter == nullptr;
    }
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
    while (!handle_.done() && handle_.promise().can_go_on()) handle_.resume();
  }
  bool ended() const { return handle_.done(); }
  const Awaited& awaited() const { return handle_.promise().awaited; }
  const std::exception_ptr& error() const { return handle_.promise().error; }

 private:
  Handle handle_;
};

}  // namespace tessera::comm::detail::shm
