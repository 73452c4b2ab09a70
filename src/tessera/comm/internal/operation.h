#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "tessera/comm/internal/state.h"

namespace tessera {

/// What a Work holds: the engine's handles, the tensors that must live, and what is left to do when
/// they have ended.
struct PendingOperation {
  std::string name;  // "all_reduce".
  std::string group;
  uint64_t sequence = 0;
  std::shared_ptr<Communicator> communicator;  // Null where nothing is sent.
  c10d::Backend* engine = nullptr;             // The communicator's, looked up once.
  std::chrono::milliseconds timeout{};
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::vector<c10::intrusive_ptr<c10d::Work>> handles;
  std::vector<at::Tensor> kept;
  std::vector<at::Tensor> results;
  std::function<void()> finish;  // Runs once after all handles have ended; may fill the results.
};

}  // namespace tessera
