#include <sched.h>
#include <signal.h>  // sigaction is POSIX.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>
#include <future>

#include "tessera/comm/gloo/factory.h"

namespace tessera::comm::detail::gloo {
namespace {

using Device = std::shared_ptr<::gloo::transport::Device>;

// A thread of Gloo's device reads and writes the sockets. While another thread sends, it can only
// poll. If it wakes up on that thread's core and takes its place, it polls for a whole time slice.
// SCHED_BATCH, which threads inherit, lets the sending thread finish first.
void yield_to_senders() {
  const sched_param parameters{};
  (void)sched_setscheduler(0, SCHED_BATCH, &parameters);  // This thread alone.
}

Device make_device(const LocalAddress& address) {
  yield_to_senders();
  return address.interface.empty()
             ? c10d::ProcessGroupGloo::createDeviceForHostname(address.host)
             : c10d::ProcessGroupGloo::createDeviceForInterface(address.interface);
}

class GlooEngine : public Engine {
 public:
  explicit GlooEngine(const LocalAddress& address)
      : device_(std::async(std::launch::async, [&] { return make_device(address); }).get()) {}

  c10::intrusive_ptr<c10d::Backend> create(const CommunicatorRequest& request) override {
    auto options = c10d::ProcessGroupGloo::Options::create(request.timeout);
    // Concurrent operations use different lanes, and so different communicators.
    options->threads = 1;
    options->devices = {device_};  // One listener and one event loop for all communicators.
    return c10::make_intrusive<c10d::ProcessGroupGloo>(request.store, request.rank, request.size,
                                                       options);
  }

 private:
  Device device_;
};

// Gloo writes to sockets whose peer may be gone; the default action of SIGPIPE would end the
// process. Python ignores the signal as well.
void ignore_broken_pipes() {
  struct sigaction action {};
  sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

std::unique_ptr<Engine> make_engine(const LocalAddress& address) {
  ignore_broken_pipes();
  return std::make_unique<GlooEngine>(address);
}

}  // namespace tessera::comm::detail::gloo
