#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <chrono>
#include <functional>
#include <future>
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

/// The state of a Work: the engine's handles, the tensors to keep alive, and what to do when the
/// handles have ended.
struct PendingOperation {
  PendingOperation(const char* name, const Group& group) : name(name), group(group) {}

  const char* name;  // "all_reduce"; a literal.
  Group group;
  uint64_t sequence = 0;
  std::shared_ptr<Communicator> communicator;  // Null if nothing is sent.
  c10d::Backend* engine = nullptr;             // The communicator's, looked up once.
  std::optional<c10::Device> device;           // Device of the caller's tensors and the results.
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::vector<c10::intrusive_ptr<c10d::Work>> handles;
  bool handles_are_p2p = false;
  bool blocks_host = false;               // Of a barrier: also if the engine runs on a GPU.
  c10::SmallVector<uint64_t, 1> records;  // Record numbers of the recorder.
  std::vector<at::Tensor> kept;
  std::vector<at::Tensor> results;
  std::function<void()> finish;  // Runs once after all handles have ended; may set the results.
  std::future<void> waiting;     // Of a thread that waits for the handles; destroyed first.

  bool sends() const { return communicator != nullptr; }
  /// Starts an operation of the engine. An exception is reported like one of wait().
  template <typename Start>
  void start(const Start& at_engine) {
    try {
      handles.push_back(at_engine());
    } catch (const std::exception&) {
      rethrow_as_failure();
    }
  }
  /// Waits for all handles, which another thread may be doing already.
  void wait() {
    if (waiting.valid()) return waiting.get();
    wait_for_handles();
  }
  void wait_for_handles() const {
    for (const auto& handle : handles) wait_for(*handle);
  }
  /// Waits for one of the handles, or another of the same kind.
  void wait_for(c10d::Work& handle) const;
  void keep_record(std::optional<uint64_t> record) {
    if (record) records.push_back(*record);
  }
  void tell_recorder(void (Recorder::*event)(uint64_t)) const;
  /// Moves the results to the device of the caller's tensors.
  void move_results();
  /// The tensor as the engine copies it: as bytes, unless it takes any dtype.
  at::Tensor as_bytes(const at::Tensor& contiguous) const;

 private:
  [[noreturn]] void rethrow_as_failure() const;
  Waiting as_waiting() const;
  std::optional<AwaitedCall> awaited_call() const;
};

/// Makes the GPU wait for an operation of NCCL, which the host does not wait for unless it must.
/// False if the host must, and the operation has not ended within `limit`.
bool wait_on_gpu(c10d::Work& handle, std::chrono::milliseconds limit, bool blocks_host);

using Operation = std::unique_ptr<PendingOperation>;
using Tensors = std::vector<at::Tensor>;

/// A call of this rank. The recorder keeps it; in checked mode the ranks compare it.
struct Call {
  const char* name = "";  // A literal.
  std::span<const at::Tensor> inputs = {};
  std::optional<ReduceOp> op = std::nullopt;
  std::optional<GroupRank> root = std::nullopt;
  std::optional<int64_t> dim = std::nullopt;
  const Sizes* send = nullptr;                 // Sizes per destination, if they are not equal.
  const Sizes* receive = nullptr;              // Sizes per source.
  std::optional<Sizes> output = std::nullopt;  // Output shape, if it differs from the input's.
};

/// A new operation on the group, with its sequence number. A group of one sends nothing.
Operation begin(const Call& call, const Group& group);

/// A P2p whose peer was checked.
struct Message {
  P2p::Kind kind;
  at::Tensor tensor;
  GroupRank peer;
  int tag = 0;
  at::Tensor dense = {};  // What the engine sends or receives.

  bool is_send() const { return kind == P2p::Kind::kSend; }
};
/// The same for point-to-point messages; counts and records each.
Operation begin_p2p(std::span<const Message> messages, const Group& group);

inline Work done(Operation operation, Tensors results) {
  operation->results = std::move(results);
  return Work(std::move(operation));
}

/// Whether an operation writes to its tensors.
enum class Access { kRead, kWrite };
/// The group whose engine sends these tensors: the group itself, or its twin for CPU tensors.
/// ConfigError for tensors that no engine can send, and for overlapping tensors to write to.
Group carrier(std::span<const at::Tensor> tensors, const Group& group, const char* name,
              Access access);
inline Group carrier(const at::Tensor& tensor, const Group& group, const char* name,
                     Access access) {
  return carrier({&tensor, 1}, group, name, access);
}
/// The tensor as bytes: engines support few dtypes, and a transfer needs none.
at::Tensor bytes_of(const at::Tensor& contiguous);

}  // namespace tessera::comm::detail
