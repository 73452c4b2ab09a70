#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "tessera/comm/gloo/factory.h"

namespace tessera::gloo {
namespace {

class GlooEngine : public Engine {
 public:
  explicit GlooEngine(const LocalAddress& address)
      : device_(address.interface.empty()
                    ? c10d::ProcessGroupGloo::createDeviceForHostname(address.host)
                    : c10d::ProcessGroupGloo::createDeviceForInterface(address.interface)) {}

  c10::intrusive_ptr<c10d::Backend> create(const CommunicatorRequest& request) override {
    auto options = c10d::ProcessGroupGloo::Options::create(request.timeout);
    // What may run side by side has a lane, and thereby a communicator, of its own.
    options->threads = 1;
    options->devices = {device_};  // One listener and one event loop for all communicators.
    return c10::make_intrusive<c10d::ProcessGroupGloo>(request.store, request.rank, request.size,
                                                       options);
  }

 private:
  std::shared_ptr<::gloo::transport::Device> device_;
};

}  // namespace

std::unique_ptr<Engine> make_engine(const LocalAddress& address) {
  return std::make_unique<GlooEngine>(address);
}

}  // namespace tessera::gloo
