#pragma once

#include <deque>
#include <variant>

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
  Arrival(std::variant<ListWork, Header> header, ListWork tensors)
      : header_(std::move(header)), tensors_(std::move(tensors)) {}
  Message wait() &&;
  /// Forms of the tensors; only after receive_announced().
  const TensorForms& forms() const { return std::get<Header>(header_).forms; }

 private:
  std::variant<ListWork, Header> header_;  // Under way, or received before the tensors.
  ListWork tensors_;
};

/// Sends and receives tensors between stages on different ranks, each with a header. Functions do
/// not wait unless stated. Tags match sends to receives, so their order does not matter; over NCCL,
/// which has no tags, check_for_nccl() has checked the order.
class MessageQueue {
 public:
  MessageQueue(const Group& group, const Schedule& schedule);
  /// **Collective.**
  void connect() const;

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
  std::deque<ListWork> sends_;  // Headers and tensors.
};

}  // namespace tessera::pipeline::detail
