// Messages between two ranks.
#include <ATen/ATen.h>

#include "tessera/base/check.h"
#include "tessera/comm/internal/checked.h"
#include "tessera/comm/internal/operation.h"
#include "tessera/comm/internal/wire.h"

namespace tessera {
namespace {

struct Message {
  P2p what;
  at::Tensor tensor;
  at::Tensor dense;  // What is sent or received.

  bool is_send() const { return what.kind == P2p::Kind::kSend; }
  void write_back() const {
    if (!is_send() && dense.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(dense);
  }
};

void check_message(const P2p& message, const Group& group) {
  check_tensor(*message.tensor, group, "send or recv");
  (void)root_of(message.peer, group);
  TSR_CHECK(0 <= message.tag && message.tag <= kLargestTag, "tag ", message.tag,
            " of a message; tags go from 0 to ", kLargestTag);
  TSR_CHECK(message.peer != group.rank(), "rank ", message.peer, " of group ", group.name(),
            " would send to itself; copy the tensor instead");
}

c10::intrusive_ptr<c10d::Work> start(c10d::Backend& engine, const Message& message,
                                     const at::Tensor& row) {
  Tensors wire{row};
  const int peer = static_cast<int>(message.what.peer.value);
  return message.is_send() ? engine.send(wire, peer, message.what.tag)
                           : engine.recv(wire, peer, message.what.tag);
}

// NCCL starts several messages as one, so that ranks that send to each other do not wait.
void send_together(PendingOperation& operation, const std::vector<Message>& messages) {
  const bool coalesce = operation.group.backend() == Backend::kNccl && messages.size() > 1;
  if (coalesce) operation.engine->startCoalescing();
  for (const Message& message : messages) {
    operation.start([&] { return start(*operation.engine, message, bytes_of(message.dense)); });
  }
  if (coalesce) {
    operation.handles.clear();
    operation.start([&] { return operation.engine->endCoalescing(); });
  }
  operation.finish = [messages] {
    for (const Message& message : messages) message.write_back();
  };
}

}  // namespace

Work send(const at::Tensor& tensor, GroupRank dst, const Group& group, int tag) {
  at::Tensor copy = tensor;
  const P2p one{P2p::Kind::kSend, &copy, dst, tag};
  return batch_send_recv({&one, 1}, group);
}

Work recv(const at::Tensor& tensor, GroupRank src, const Group& group, int tag) {
  at::Tensor copy = tensor;
  const P2p one{P2p::Kind::kRecv, &copy, src, tag};
  return batch_send_recv({&one, 1}, group);
}

Work batch_send_recv(std::span<const P2p> operations, const Group& group) {
  for (const P2p& one : operations) check_message(one, group);
  Operation operation = begin_p2p(operations, group);
  std::vector<Message> messages;
  Tensors results;
  for (const P2p& one : operations) {
    messages.push_back({one, *one.tensor, on_wire(*one.tensor, group)});
    results.push_back(*one.tensor);
  }
  send_together(*operation, messages);
  return done(std::move(operation), std::move(results));
}

}  // namespace tessera
