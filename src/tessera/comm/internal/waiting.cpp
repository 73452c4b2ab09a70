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

constexpr milliseconds kStep{500};  // Shorter operations pay nothing for being watched.

milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

// Why the wait has failed, as far as it can be found out. `said` are the engine's words, if any.
std::string cause_of(const Waiting& waiting, const Watch::Vigil& vigil, const std::string& said) {
  Watch& watch = *waiting.watch;
  const bool timed_out = since(waiting.started) >= waiting.timeout;
  if (auto failure = watch.failure()) return *failure;
  if (timed_out) return watch.report(vigil);
  if (auto failure = watch.verdict()) return *failure;
  return concat(said, "; all its ranks are alive: ", watch.report(vigil));
}

[[noreturn]] void fail(const Waiting& waiting, const Watch::Vigil* vigil, const std::string& said) {
  const milliseconds elapsed = since(waiting.started);
  const bool timed_out = elapsed >= waiting.timeout;
  const std::string cause = vigil == nullptr ? said : cause_of(waiting, *vigil, said);
  std::string message = concat(waiting.what(), timed_out ? " timed out after " : " failed after ",
                               elapsed.count(), " ms: ", cause);
  if (waiting.watch != nullptr) waiting.watch->note(message);
  if (waiting.recorder != nullptr) {
    const std::string path = waiting.recorder->write_dump("error: " + message);
    if (!path.empty()) message += concat(" (last operations: ", path, ")");
  }
  report_error(message);
  if (waiting.watch != nullptr) waiting.watch->linger();
  throw CommError(message);
}

}  // namespace

void wait_in_steps(const Waiting& waiting, const std::function<bool(milliseconds)>& step) {
  std::optional<Watch::Vigil> vigil;
  const auto watch_over = [&] {
    if (waiting.watch != nullptr && !vigil) vigil.emplace(*waiting.watch, waiting.members);
    return vigil ? &*vigil : nullptr;
  };
  for (;;) {
    const milliseconds left = waiting.timeout - since(waiting.started);
    try {
      if (step(std::clamp(left, milliseconds(1), kStep))) return;
    } catch (const std::exception& error) {
      fail(waiting, watch_over(), engine_words(error));
    }
    const bool lost = watch_over() != nullptr && waiting.watch->failure();
    if (lost || since(waiting.started) >= waiting.timeout) {
      fail(waiting, watch_over(), "the time is up");
    }
  }
}

void wait_abortable(const Waiting& waiting, const std::function<bool(milliseconds)>& wait,
                    const std::function<void()>& abort) {
  std::optional<Watch::Vigil> vigil;
  if (waiting.watch != nullptr) vigil.emplace(*waiting.watch, waiting.members, abort);
  std::string said = "it was aborted";
  try {
    const bool lost = waiting.watch != nullptr && waiting.watch->failure();
    if (!lost && wait(waiting.timeout)) return;
  } catch (const std::exception& error) {
    said = engine_words(error);
  }
  fail(waiting, vigil ? &*vigil : nullptr, said);
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
