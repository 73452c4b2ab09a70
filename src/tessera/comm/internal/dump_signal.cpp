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

#include "tessera/base/environment.h"
#include "tessera/base/random_name.h"
#include "tessera/comm/dump_on_signal.h"
#include "tessera/comm/internal/recorder.h"

namespace tessera::comm::detail {
namespace {

// Never destroyed: the thread below may outlive main.
struct Registry {
  std::mutex mutex;
  std::list<std::weak_ptr<const Recorder>> recorders;
  std::shared_ptr<const Recorder> alone;  // For a job of one rank, which may have no world.
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

int wake_up = -1;  // The write end of the pipe that the handler uses.

void on_signal(int /*signal*/) {
  const int saved = errno;
  const char byte = 0;
  [[maybe_unused]] const auto written = write(wake_up, &byte, 1);
  errno = saved;
}

void write_dump(const Recorder& recorder) {
  const std::string path = recorder.write_dump("SIGUSR1");
  if (path.empty()) {
    std::fputs("tessera: SIGUSR1: cannot write the last operations\n", stderr);
  } else {
    std::fprintf(stderr, "tessera: SIGUSR1: the last operations are in %s\n", path.c_str());
  }
}

void write_dumps() {
  const std::lock_guard lock(registry().mutex);
  bool any = false;
  for (const auto& weak : registry().recorders) {
    const auto recorder = weak.lock();
    if (!recorder || recorder == registry().alone) continue;
    write_dump(*recorder);
    any = true;
  }
  if (any) return;
  if (registry().alone) return write_dump(*registry().alone);
  std::fputs("tessera: SIGUSR1: nothing to write: this rank is not connected to the others yet\n",
             stderr);
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

void install_once() {
  static std::once_flag once;
  std::call_once(once, install);
}

}  // namespace

void add_to_dumps(const std::weak_ptr<const Recorder>& recorder) {
  install_once();
  const std::lock_guard lock(registry().mutex);
  registry().recorders.remove_if([](const auto& weak) { return weak.expired(); });
  registry().recorders.push_back(recorder);
}

}  // namespace tessera::comm::detail

namespace tessera {

using namespace comm::detail;

void dump_on_signal() {
  install_once();
  const LaunchInfo launch = read_launch_info(process_environment());
  if (launch.world_size > 1) return;
  auto alone = Recorder::make(launch, random_name());
  const std::lock_guard lock(registry().mutex);
  registry().alone = std::move(alone);
}

}  // namespace tessera
