#include "tessera/comm/internal/operation.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <numeric>
#include <string_view>

#include "tessera/base/check.h"
#include "tessera/comm/internal/checked.h"

namespace tessera::comm::detail {
namespace {

Operation start(const char* name, const Group& group) {
  (void)group.rank();  // Members only.
  auto operation = std::make_unique<PendingOperation>(name, group);
  if (group.size() == 1) return operation;
  operation->engine = &group.state().connect();
  operation->communicator = group.state().communicator();
  return operation;
}

void check_tensor(const at::Tensor& tensor, const Group& group, const char* name) {
  TSR_CHECK(tensor.defined(), name, " got an undefined tensor; pass a defined one");
  TSR_CHECK(tensor.layout() == at::kStrided, name, " got a tensor of layout ", tensor.layout(),
            "; make it dense first");
  const bool stays_here = group.size() == 1 && !tensor.is_meta();
  TSR_CHECK(stays_here || group.takes(tensor.device().type()), name, " got a tensor on ",
            tensor.device().str(), ", but group ", group.name(), " uses ",
            to_string(group.backend()), ", which only sends CPU and CUDA tensors; move the tensor");
}

void check_writable(const at::Tensor& tensor, const char* name) {
  TSR_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, name,
            " writes to its tensor, but elements of this one (shape ", tensor.sizes(), ", strides ",
            tensor.strides(), ") share memory; pass a contiguous() copy");
}

// Engines throw the same exception for a timeout and for a failure.
bool wait_step(c10d::Work& handle, std::chrono::milliseconds step) {
  try {
    return handle.wait(step);
  } catch (const std::exception&) {
    if (handle.isCompleted()) throw;
    return false;
  }
}

int64_t total_bytes(std::span<const at::Tensor> tensors) {
  int64_t sum = 0;
  for (const at::Tensor& tensor : tensors) sum += static_cast<int64_t>(tensor.nbytes());
  return sum;
}

// Those of an all-to-all that stay on this rank.
int64_t bytes_of_own(const Sizes& send, int64_t bytes, const Group& group) {
  const int64_t rows = std::accumulate(send.begin(), send.end(), int64_t{0});
  const int64_t own = send[static_cast<size_t>(group.rank().value)];
  return rows == 0 ? 0 : bytes / rows * own;
}

// See sent_bytes(). Of operations with a root, a chain of ranks sends every byte once per link.
int64_t sent_by(const Call& call, const Group& group) {
  const std::string_view name = call.name;
  const int64_t bytes = total_bytes(call.inputs);
  const int64_t others = group.size() - 1;
  const bool is_root = call.root && group.rank() == *call.root;
  if (name.starts_with("all_gather")) return bytes * others;
  if (name.starts_with("all_reduce")) return 2 * bytes * others / group.size();
  if (name == "gather") return is_root ? 0 : bytes;
  if (name == "scatter") return is_root ? bytes * others : 0;
  if (call.send != nullptr) return bytes - bytes_of_own(*call.send, bytes, group);
  return bytes * others / group.size();
}

}  // namespace

Waiting PendingOperation::as_waiting() const {
  const GroupState& state = group.state();
  return {.what = [this] { return concat(name, " #", sequence, " of group ", group.name()); },
          .members = state.ranks(),
          .call = [this] { return awaited_call(); },
          .timeout = state.timeout(),
          .watchdog = state.world().watchdog.get(),
          .recorder = state.world().recorder.get(),
          .started = started};
}

std::optional<AwaitedCall> PendingOperation::awaited_call() const {
  if (handles_are_p2p || communicator->name().empty()) return std::nullopt;
  return AwaitedCall{.communicator = communicator->name(),
                     .number = static_cast<int64_t>(sequence),
                     .what = as_waiting().what()};
}

// A timeout in a wait for a message breaks Gloo's connection, but such a wait can be aborted.
void PendingOperation::wait_for(c10d::Work& handle) const {
  if (group.backend() == Backend::kNccl) {
    wait_in_steps(as_waiting(), [&](auto step) { return wait_on_gpu(handle, step, blocks_host); });
  } else if (handles_are_p2p && !communicator->by_memory()) {
    wait_abortable(
        as_waiting(), [&](auto timeout) { return handle.wait(timeout); }, [&] { handle.abort(); });
  } else {
    wait_in_steps(as_waiting(), [&](auto step) { return wait_step(handle, step); });
  }
}

// To NCCL a time limit that expires is a failure, for which it aborts the communicator.
bool wait_on_gpu(c10d::Work& handle, std::chrono::milliseconds limit, bool blocks_host) {
  constexpr std::chrono::microseconds kPause{100};
  const auto has_ended = [&] { return handle.isCompleted(); };
  return (!blocks_host || becomes_true(has_ended, limit, kPause)) && handle.wait();
}

void PendingOperation::rethrow_as_failure() const {
  try {
    wait_in_steps(as_waiting(), [](auto) -> bool { throw; });
  } catch (const CommError& error) {
    communicator->poison(error.what());
    throw;
  }
  TSR_ASSERT(false, "an engine's failure was not reported");
  std::terminate();
}

void PendingOperation::tell_recorder(void (Recorder::*event)(uint64_t)) const {
  for (const uint64_t record : records) (communicator->recorder()->*event)(record);
}

// Shared memory takes any dtype: a view of bytes costs more than a small operation.
at::Tensor PendingOperation::as_bytes(const at::Tensor& contiguous) const {
  return communicator->by_memory() ? contiguous : bytes_of(contiguous);
}

void PendingOperation::move_results() {
  for (at::Tensor& result : results) {
    if (device && result.device() != *device) result = result.to(*device);
  }
}

Operation begin(const Call& call, const Group& group) {
  Operation operation = start(call.name, group);
  if (!call.inputs.empty()) operation->device = call.inputs.front().device();
  if (!operation->sends()) return operation;
  Communicator& communicator = *operation->communicator;
  operation->sequence = communicator.next_sequence();
  if (group.state().is_quiet()) return operation;
  operation->keep_record(communicator.record({.name = call.name,
                                              .sequence = operation->sequence,
                                              .timeout = group.state().timeout(),
                                              .inputs = call.inputs,
                                              .output = call.output,
                                              .purpose = group.state().name(),
                                              .sent_bytes = sent_by(call, group)}));
  if (group.state().comparing()) compare_calls(call, *operation);
  return operation;
}

Operation begin_p2p(std::span<const Message> messages, const Group& group) {
  Operation operation = start("send/recv", group);
  if (!operation->sends()) return operation;
  operation->handles_are_p2p = true;
  Communicator& communicator = *operation->communicator;
  for (const Message& message : messages) {
    const bool is_send = message.is_send();
    operation->name = messages.size() > 1 ? "send/recv" : is_send ? "send" : "recv";
    operation->sequence = communicator.next_p2p(message.peer, is_send);
    operation->keep_record(
        communicator.record({.name = is_send ? "send" : "recv",
                             .sequence = communicator.sequence(),
                             .p2p_sequence = operation->sequence,
                             .p2p = P2pEnds{is_send, group.rank().value, message.peer.value},
                             .timeout = group.state().timeout(),
                             .inputs = {&message.tensor, 1},
                             .purpose = group.state().name(),
                             .sent_bytes = is_send ? total_bytes({&message.tensor, 1}) : 0}));
    if (group.state().comparing()) compare_ends(message, *operation);
  }
  return operation;
}

Group carrier(std::span<const at::Tensor> tensors, const Group& group, const char* name,
              Access access) {
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor, group, name);
    if (access == Access::kWrite) check_writable(tensor, name);
    TSR_CHECK(tensor.device() == tensors.front().device(), name, " got tensors on ",
              tensors.front().device().str(), " and on ", tensor.device().str(),
              "; start one operation per device");
  }
  const bool cpu = !tensors.empty() && tensors.front().is_cpu();
  const auto& twin = group.state().cpu_twin();
  return cpu && twin ? Group(twin) : group;
}

at::Tensor bytes_of(const at::Tensor& contiguous) {
  return contiguous.detach().reshape({-1}).view(at::kByte);
}

}  // namespace tessera::comm::detail
