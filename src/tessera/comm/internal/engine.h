#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tessera/comm/options.h"

namespace tessera::comm::detail {

/// What a back end is told about one communicator.
struct CommunicatorRequest {
  c10::intrusive_ptr<c10d::Store> store =
      {};  // Where its members meet; nobody else uses these keys.
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  NcclOptions nccl = {};
};

/// A back end: makes communicators. Each folder gloo/, nccl/ and fake/ has one, behind its
/// factory.h.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual c10::intrusive_ptr<c10d::Backend> create(const CommunicatorRequest& request) = 0;
};

/// Where this process can be reached by the other ranks.
struct LocalAddress {
  std::string interface = "";  // Wins where it is set: TESSERA_IFACE.
  std::string host = "127.0.0.1";
};

}  // namespace tessera::comm::detail
