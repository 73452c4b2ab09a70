// Messages between two ranks.
#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/internal/checked.h"
#include "tessera/comm/internal/operation.h"
#include "tessera/comm/internal/wire.h"

namespace tessera {

using namespace comm::detail;

namespace {

void write_back(const Message& message) {
  if (message.is_send() || message.dense.data_ptr() == message.tensor.data_ptr()) return;
  message.tensor.detach().copy_(message.dense);
}

Message checked(const P2p& given, const Group& group) {
  const GroupRank peer = given.peer.in(group);
  TSR_CHECK(0 <= given.tag && given.tag <= kLargestTag, "a tag must be from 0 to ", kLargestTag,
            ", but is ", given.tag);
  TSR_CHECK(peer != group.rank(), "rank ", peer, " of group ", group.name(),
            " would send to itself; copy the tensor instead");
  return {given.kind, given.tensor, peer, given.tag};
}

// The group that sends all of the tensors; a recv writes to its tensor.
Group carrier_of(std::span<const P2p> operations, const Group& group) {
  Tensors tensors;
  for (const P2p& one : operations) {
    tensors.push_back(one.tensor);
    if (one.kind == P2p::Kind::kRecv) (void)carrier(one.tensor, group, "recv", Access::kWrite);
  }
  return carrier(tensors, group, "send or recv", Access::kRead);
}

c10::intrusive_ptr<c10d::Work> start(c10d::Backend& engine, const Message& message,
                                     const at::Tensor& row) {
  Tensors wire{row};
  const int peer = static_cast<int>(message.peer.value);
  return message.is_send() ? engine.send(wire, peer, message.tag)
                           : engine.recv(wire, peer, message.tag);
}

// A batch of NCCL, whose messages begin when all of them are known. One that failed must be ended,
// too: until then NCCL would begin nothing else of this thread.
class Coalescing {
 public:
  explicit Coalescing(c10d::Backend& engine) : engine_(&engine) { engine.startCoalescing(); }
  Coalescing(const Coalescing&) = delete;
  Coalescing& operator=(const Coalescing&) = delete;
  ~Coalescing() {
    if (engine_ == nullptr) return;
    try {
      engine_->endCoalescing();
    } catch (const std::exception&) {  // The first error is the one to report.
    }
  }
  c10::intrusive_ptr<c10d::Work> end() { return std::exchange(engine_, nullptr)->endCoalescing(); }

 private:
  c10d::Backend* engine_;
};

enum class Form { kSingle, kBatch };

// NCCL coalesces a batch, so that ranks that send to each other do not deadlock. It must coalesce a
// batch of one message as well, since only coalesced messages meet coalesced ones, but not one of
// none, for which it makes no handle.
void start_all(PendingOperation& operation, std::vector<Message> messages, Form form) {
  const bool is_batch = form == Form::kBatch && !messages.empty();
  std::optional<Coalescing> coalescing;
  if (operation.group.backend() == Backend::kNccl && is_batch) {
    coalescing.emplace(*operation.engine);
  }
  for (const Message& message : messages) {
    operation.start(
        [&] { return start(*operation.engine, message, operation.as_bytes(message.dense)); });
  }
  if (coalescing) {
    operation.handles.clear();
    operation.start([&] { return coalescing->end(); });
  }
  operation.finish = [messages = std::move(messages)] {
    for (const Message& message : messages) write_back(message);
  };
}

Work start_messages(std::span<const P2p> operations, const Group& given, Form form) {
  const Group group = carrier_of(operations, given);
  std::vector<Message> messages;
  for (const P2p& one : operations) messages.push_back(checked(one, group));
  Operation operation = begin_p2p(messages, group);
  Tensors results;
  for (Message& message : messages) {
    message.dense = on_wire(message.tensor, group);
    results.push_back(message.tensor);
  }
  start_all(*operation, std::move(messages), form);
  return done(std::move(operation), std::move(results));
}

}  // namespace

Work send(const at::Tensor& tensor, Member dst, const Group& group, int tag) {
  const P2p one{P2p::Kind::kSend, tensor, dst, tag};
  return start_messages({&one, 1}, group, Form::kSingle);
}

Work recv(const at::Tensor& tensor, Member src, const Group& group, int tag) {
  const P2p one{P2p::Kind::kRecv, tensor, src, tag};
  return start_messages({&one, 1}, group, Form::kSingle);
}

ListWork batch_send_recv(std::span<const P2p> operations, const Group& group) {
  return start_messages(operations, group, Form::kBatch);
}

}  // namespace tessera
