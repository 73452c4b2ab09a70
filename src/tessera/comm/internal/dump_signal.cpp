#include "tessera/comm/internal/dump_signal.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <list>
#include <mutex>
#include <thread>

#include "tessera/comm/internal/recorder.h"

namespace tessera::comm::detail {
namespace {

// Never destroyed: the thread below may outlive main.
struct Registry {
  std::mutex mutex;
  std::list<std::weak_ptr<const Recorder>> recorders;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

int wake_up = -1;  // The end of a pipe to which the handler writes.

void on_signal(int /*signal*/) {
  const int saved = errno;
  const char byte = 0;
  [[maybe_unused]] const auto written = write(wake_up, &byte, 1);
  errno = saved;
}

void write_dumps() {
  const std::lock_guard lock(registry().mutex);
  for (const auto& weak : registry().recorders) {
    const auto recorder = weak.lock();
    if (!recorder) continue;
    const std::string path = recorder->write_dump("SIGUSR1");
    std::fprintf(stderr, "tessera: SIGUSR1: the last operations are in %s\n", path.c_str());
  }
}

void install() {
  struct sigaction present {};
  if (sigaction(SIGUSR1, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  wake_up = ends[1];
  std::thread([from = ends[0]] {
    char byte = 0;
    while (read(from, &byte, 1) == 1) write_dumps();
  }).detach();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

}  // namespace

void dump_on_signal(const std::weak_ptr<const Recorder>& recorder) {
  static std::once_flag once;
  std::call_once(once, install);
  const std::lock_guard lock(registry().mutex);
  registry().recorders.remove_if([](const auto& weak) { return weak.expired(); });
  registry().recorders.push_back(recorder);
}

}  // namespace tessera::comm::detail
