#pragma once

#include <deque>
#include <optional>

#include "tessera/comm/collectives.h"
#include "tessera/comm/group.h"
#include "tessera/parallel/pipeline/internal/buffer_pool.h"
#include "tessera/parallel/pipeline/internal/header.h"
#include "tessera/schedule/schedule.h"

namespace tessera::pipeline::detail {

/// A received message.
struct Message {
  Header header = {};
  Tensors tensors = {};
};

/// A message in flight.
class Arrival {
 public:
  Arrival(ListWork work, std::optional<Header> header)
      : work_(std::move(work)), header_(std::move(header)) {}
  Message wait() &&;
  /// Forms of the tensors; only after receive_announced().
  const TensorForms& forms() const { return header_->forms; }

 private:
  ListWork work_;
  std::optional<Header> header_;  // Set if it was received before the tensors.
};

/// Sends and receives tensors between stages on different ranks, each with a header. Functions do
/// not wait unless stated. Tags match sends to receives, so their order does not matter.
class MessageQueue {
 public:
  /// `device` is that of the tensors. The header is on the same device, so both are one message.
  MessageQueue(const Group& group, const Schedule& schedule, at::Device device);
  /// **Collective.**
  void connect() const { barrier(group_); }

  /// SEND_F or SEND_B. With rendezvous sends, waits for the oldest if many are in flight, so that
  /// sent tensors are not kept for the whole step.
  void send(const Task& message, const Header& header, const Tensors& tensors);
  /// RECV_F or RECV_B of tensors with known forms.
  Arrival receive(const Task& message, const TensorForms& forms, BufferPool& pool);
  /// RECV_F of tensors whose forms are in the header: waits for the header.
  Arrival receive_announced(const Task& message, BufferPool& pool);
  /// Waits for all sends.
  void finish();

 private:
  GroupRank peer_of(const Task& message) const;
  int tag_of(const Task& message, size_t part) const;
  ListWork start(P2p::Kind kind, const Task& message, const Tensors& tensors, size_t first_part);

  Group group_;
  const Schedule& schedule_;
  at::Device device_;
  std::deque<ListWork> sends_;
};

}  // namespace tessera::pipeline::detail
