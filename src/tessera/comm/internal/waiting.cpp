#include "tessera/comm/internal/waiting.h"

#include <algorithm>
#include <future>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/internal/engine_error.h"
#include "tessera/launch/worker.h"

namespace tessera::comm::detail {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kStep{500};  // The watchdog costs shorter operations nothing.

milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

// Why the wait failed, as far as it is known. `said` is the engine's message, if there is one.
std::string cause_of(const Waiting& waiting, const Watchdog::Scope& scope,
                     const std::string& said) {
  Watchdog& watchdog = *waiting.watchdog;
  const bool timed_out = since(waiting.started) >= waiting.timeout;
  if (auto failure = watchdog.failure()) return *failure;
  if (timed_out) return watchdog.report(scope);
  if (auto failure = watchdog.wait_for_failure()) return *failure;
  return concat(said, "; all its ranks are alive: ", watchdog.report(scope));
}

[[noreturn]] void fail(const Waiting& waiting, const Watchdog::Scope* scope,
                       const std::string& said) {
  const milliseconds elapsed = since(waiting.started);
  const bool timed_out = elapsed >= waiting.timeout;
  const std::string cause = scope == nullptr ? said : cause_of(waiting, *scope, said);
  std::string message = concat(waiting.what(), timed_out ? " timed out after " : " failed after ",
                               elapsed.count(), " ms: ", cause);
  if (waiting.watchdog != nullptr) waiting.watchdog->note(message);
  if (waiting.recorder != nullptr) {
    const std::string path = waiting.recorder->write_dump("error: " + message);
    if (!path.empty()) message += concat(" (last operations: ", path, ")");
  }
  report_error(message);
  if (waiting.watchdog != nullptr) waiting.watchdog->linger();
  throw CommError(message);
}

}  // namespace

void wait_in_steps(const Waiting& waiting, const std::function<bool(milliseconds)>& step) {
  std::optional<Watchdog::Scope> scope;
  const auto watch_over = [&] {
    if (waiting.watchdog != nullptr && !scope) {
      scope.emplace(*waiting.watchdog, waiting.members, nullptr, waiting.call());
    }
    return scope ? &*scope : nullptr;
  };
  for (;;) {
    const milliseconds left = waiting.timeout - since(waiting.started);
    try {
      if (step(std::clamp(left, milliseconds(1), kStep))) return;
    } catch (const std::exception& error) {
      fail(waiting, watch_over(), engine_message(error));
    }
    const bool lost = watch_over() != nullptr && waiting.watchdog->failure();
    if (lost || since(waiting.started) >= waiting.timeout) {
      fail(waiting, watch_over(), "the timeout expired");
    }
  }
}

bool becomes_true(const std::function<bool()>& is_done, milliseconds limit,
                  std::chrono::microseconds pause) {
  const auto end = Clock::now() + limit;
  while (!is_done()) {
    if (Clock::now() >= end) return false;
    if (pause == kNoPause) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
  return true;
}

void wait_abortable(const Waiting& waiting, const std::function<bool(milliseconds)>& wait,
                    const std::function<void()>& abort) {
  std::optional<Watchdog::Scope> scope;
  if (waiting.watchdog != nullptr) scope.emplace(*waiting.watchdog, waiting.members, abort);
  std::string said = "it was aborted";
  try {
    const bool lost = waiting.watchdog != nullptr && waiting.watchdog->failure();
    if (!lost && wait(waiting.timeout)) return;
  } catch (const std::exception& error) {
    said = engine_message(error);
  }
  fail(waiting, scope ? &*scope : nullptr, said);
}

void run_watched(const Waiting& waiting, std::function<void()> body) {
  auto task = std::make_shared<std::packaged_task<void()>>(std::move(body));
  std::future<void> end = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  wait_in_steps(waiting, [&](milliseconds step) {
    if (end.wait_for(step) != std::future_status::ready) return false;
    end.get();
    return true;
  });
}

}  // namespace tessera::comm::detail
