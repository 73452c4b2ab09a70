#include <signal.h>  // sigaction is POSIX.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>

#include "tessera/comm/gloo/factory.h"

namespace tessera::comm::detail::gloo {
namespace {

class GlooEngine : public Engine {
 public:
  explicit GlooEngine(const LocalAddress& address)
      : device_(address.interface.empty()
                    ? c10d::ProcessGroupGloo::createDeviceForHostname(address.host)
                    : c10d::ProcessGroupGloo::createDeviceForInterface(address.interface)) {}

  c10::intrusive_ptr<c10d::Backend> create(const CommunicatorRequest& request) override {
    auto options = c10d::ProcessGroupGloo::Options::create(request.timeout);
    // Concurrent operations use different lanes, and so different communicators.
    options->threads = 1;
    options->devices = {device_};  // One listener and one event loop for all communicators.
    return c10::make_intrusive<c10d::ProcessGroupGloo>(request.store, request.rank, request.size,
                                                       options);
  }

 private:
  std::shared_ptr<::gloo::transport::Device> device_;
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
