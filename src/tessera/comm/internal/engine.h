#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tessera/comm/options.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {

/// The parameters of a communicator.
struct CommunicatorRequest {
  c10::intrusive_ptr<c10d::Store> store =
      {};                 // The store for its members; no other communicator uses these keys.
  std::string name = "";  // Of its group, for messages of the engine.
  RankGroup ranks = {};   // Of its group, for messages of the engine.
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  NcclOptions nccl = {};
  /// Of this process, on which NCCL connects now. Empty: in the first operation.
  std::optional<c10::Device> connected_device = std::nullopt;
  /// To split this one from. All its members do that at once, each with the color of its part.
  c10::intrusive_ptr<c10d::Backend> parent = {};
  int color = 0;
};

/// A back end, which makes communicators. There is one in each of gloo/, shm/, nccl/ and fake/,
/// behind its factory.h.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual c10::intrusive_ptr<c10d::Backend> create(const CommunicatorRequest& request) = 0;
  /// Memory that its communicators send without a copy; empty if there is none.
  virtual std::optional<c10::DataPtr> buffer(size_t) { return std::nullopt; }
};

/// Where other ranks reach this process.
struct LocalAddress {
  std::string interface = "";  // TESSERA_IFACE; overrides `host` if it is set.
  std::string host = "127.0.0.1";
  int64_t node = 0;           // Of this process, as its launcher counts.
  bool shares_memory = true;  // With the other ranks of its host; not with TESSERA_SHM=0.
};

}  // namespace tessera::comm::detail
