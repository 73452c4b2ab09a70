#pragma once

#include <deque>
#include <optional>

#include "tessera/comm/collectives.h"
#include "tessera/comm/group.h"
#include "tessera/parallel/pipeline/internal/buffer_pool.h"
#include "tessera/parallel/pipeline/internal/header.h"
#include "tessera/schedule/schedule.h"

namespace tessera::pipeline::detail {

/// What has come from another rank.
struct Message {
  Header header = {};
  Tensors tensors = {};
};

/// A message under way.
class Arrival {
 public:
  Arrival(ListWork work, std::optional<Header> header)
      : work_(std::move(work)), header_(std::move(header)) {}
  Message wait() &&;
  /// Of what is coming; for an announced one.
  const TensorForms& forms() const { return header_->forms; }

 private:
  ListWork work_;
  std::optional<Header> header_;  // Where it came before the tensors.
};

/// Carries tensors between the stages of different ranks, a header before them. Nothing here waits
/// but where it says so; messages find each other by name, in whatever order they are started.
class MessageQueue {
 public:
  /// `device` is that of the tensors: a header lies where they do, so that both are one message.
  MessageQueue(const Group& group, const Schedule& schedule, at::Device device);
  /// **Collective.**
  void connect() const { barrier(group_); }

  /// SEND_F or SEND_B. Where sends may wait for their receives, waits for the oldest once many are
  /// under way: what was sent is not held for the whole step.
  void send(const Task& message, const Header& header, const Tensors& tensors);
  /// RECV_F or RECV_B of tensors that are known.
  Arrival receive(const Task& message, const TensorForms& forms, BufferPool& pool);
  /// RECV_F of tensors that the header tells of: waits for the header.
  Arrival receive_announced(const Task& message, BufferPool& pool);
  /// Waits until all has been sent.
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
