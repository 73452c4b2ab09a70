#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "tessera/comm/collectives.h"
#include "tessera/comm/group.h"
#include "tessera/comm/internal/state.h"
#include "tessera/comm/internal/waiting.h"

namespace tessera::comm::detail {

/// What a Work holds: the engine's handles, the tensors that must live, and what is left to do when
/// they have ended.
struct PendingOperation {
  PendingOperation(const char* name, const Group& group) : name(name), group(group) {}

  const char* name;  // "all_reduce"; a literal.
  Group group;
  uint64_t sequence = 0;
  std::shared_ptr<Communicator> communicator;  // Null where nothing is sent.
  c10d::Backend* engine = nullptr;             // The communicator's, looked up once.
  std::optional<c10::Device> device;           // Of the tensors that were given; results go there.
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::vector<c10::intrusive_ptr<c10d::Work>> handles;
  bool handles_are_p2p = false;
  c10::SmallVector<uint64_t, 1> records;  // The recorder's numbers.
  std::vector<at::Tensor> kept;
  std::vector<at::Tensor> results;
  std::function<void()> finish;  // Runs once after all handles have ended; may fill the results.

  bool sends() const { return communicator != nullptr; }
  /// Starts something at the engine. What that throws is told as what a wait would throw.
  template <typename Start>
  void start(const Start& at_engine) {
    try {
      handles.push_back(at_engine());
    } catch (const std::exception&) {
      rethrow_as_failure();
    }
  }
  /// Waits for one of the handles, or another of the same kind.
  void wait_for(c10d::Work& handle) const;
  void keep_record(std::optional<uint64_t> record) {
    if (record) records.push_back(*record);
  }
  void tell_recorder(void (Recorder::*event)(uint64_t)) const;
  /// To the device that the caller's tensors are on.
  void move_results();

 private:
  [[noreturn]] void rethrow_as_failure() const;
  Waiting as_waiting() const;
};

using Operation = std::unique_ptr<PendingOperation>;
using Tensors = std::vector<at::Tensor>;

/// What this rank asks of a group. The recorder keeps it; in checked mode the ranks compare it.
struct Call {
  const char* name = "";  // A literal.
  std::span<const at::Tensor> inputs = {};
  std::optional<ReduceOp> op = std::nullopt;
  std::optional<GroupRank> root = std::nullopt;
  std::optional<int64_t> dim = std::nullopt;
  const Sizes* send = nullptr;     // What goes to each rank, where that is not equal shares.
  const Sizes* receive = nullptr;  // What comes from each rank.
  std::optional<Sizes> output = std::nullopt;  // Its shape, where it is not the input's.
};

/// An operation on the group, with its number; nothing is sent in a group of one.
Operation begin(const Call& call, const Group& group);

/// A P2p whose peer is known in the group.
struct Message {
  P2p::Kind kind;
  at::Tensor tensor;
  GroupRank peer;
  int tag = 0;
  at::Tensor dense = {};  // What is sent or received.

  bool is_send() const { return kind == P2p::Kind::kSend; }
};
/// The same for messages between two ranks; counts them and records each.
Operation begin_p2p(std::span<const Message> messages, const Group& group);

inline Work done(Operation operation, Tensors results) {
  operation->results = std::move(results);
  return Work(std::move(operation));
}

/// Whether an operation writes to the tensors that it is given.
enum class Access { kRead, kWrite };
/// The group whose engine sends these tensors: the group itself, or its twin for CPU tensors.
/// Refuses tensors that no engine can send, and those to write to whose elements share memory.
Group carrier(std::span<const at::Tensor> tensors, const Group& group, const char* name,
              Access access);
inline Group carrier(const at::Tensor& tensor, const Group& group, const char* name,
                     Access access) {
  return carrier({&tensor, 1}, group, name, access);
}
/// The tensor as bytes: engines know few dtypes, but moving needs none of them.
at::Tensor bytes_of(const at::Tensor& contiguous);

}  // namespace tessera::comm::detail
