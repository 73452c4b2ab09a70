#include "tessera/parallel/pipeline/internal/message_queue.h"
#include "tessera/base/check.h"

namespace tessera::pipeline::detail {
namespace {

constexpr size_t kMostSends = 32;             // Of headers and of tensors.
constexpr int64_t kParts = kMostTensors + 1;  // The header is part 0.

bool goes_forward(const Task& message) {
  return message.type == ActionType::kSendForward || message.type == ActionType::kRecvForward;
}

// The stage at the other end.
int64_t other_stage(const Task& message) {
  const bool next = goes_forward(message) == is_send(message.type);
  return message.stage + (next ? 1 : -1);
}

Tensors buffers_for(const TensorForms& forms, BufferPool& pool) {
  Tensors buffers;
  for (const TensorForm& form : forms) buffers.push_back(pool.take(form));
  return buffers;
}

}  // namespace

Message Arrival::wait() && {
  if (auto* const work = std::get_if<ListWork>(&header_)) {
    header_ = to_header(std::move(*work).wait().front());
  }
  return {std::get<Header>(std::move(header_)), std::move(tensors_).wait()};
}

MessageQueue::MessageQueue(const Group& group, const Schedule& schedule)
    : group_(group), schedule_(schedule) {
  const int64_t most = kLargestTag / (2 * kParts * schedule.num_stages());
  TSR_CHECK(schedule.microbatches() <= most, schedule.microbatches(), " microbatches on ",
            schedule.num_stages(),
            " stages need more messages than there are tags; choose at most ", most,
            " microbatches");
}

// An NCCL group sends headers over Gloo, which connects its ranks in an operation of all, too.
void MessageQueue::connect() const {
  barrier(group_);
  agree(true, group_, "a connection of all stages");
}

GroupRank MessageQueue::peer_of(const Task& message) const {
  return schedule_.rank_of(other_stage(message));
}

// By the receiving stage, so that both ends get the same tag.
int MessageQueue::tag_of(const Task& message, size_t part) const {
  const int64_t receiver = is_send(message.type) ? other_stage(message) : message.stage;
  const int64_t lane = goes_forward(message) ? receiver : schedule_.num_stages() + receiver;
  const int64_t number = lane * schedule_.microbatches() + message.microbatch;
  return static_cast<int>(number * kParts + static_cast<int64_t>(part));
}

ListWork MessageQueue::start(P2p::Kind kind, const Task& message, const Tensors& tensors,
                             size_t first_part) {
  std::vector<P2p> parts;
  for (const at::Tensor& tensor : tensors) {
    const int tag = tag_of(message, first_part + parts.size());
    parts.push_back({kind, tensor, peer_of(message), tag});
  }
  return batch_send_recv(parts, group_);
}

void MessageQueue::send(const Task& message, const Header& header, const Tensors& tensors) {
  sends_.push_back(start(P2p::Kind::kSend, message, {to_tensor(header)}, 0));
  sends_.push_back(start(P2p::Kind::kSend, message, tensors, 1));
  while (schedule_.sends() == SendMode::kRendezvous && sends_.size() > kMostSends) {
    (void)std::move(sends_.front()).wait();
    sends_.pop_front();
  }
}

Arrival MessageQueue::receive(const Task& message, const TensorForms& forms, BufferPool& pool) {
  ListWork header = start(P2p::Kind::kRecv, message, {empty_header()}, 0);
  return {std::move(header), start(P2p::Kind::kRecv, message, buffers_for(forms, pool), 1)};
}

Arrival MessageQueue::receive_announced(const Task& message, BufferPool& pool) {
  Header header = to_header(start(P2p::Kind::kRecv, message, {empty_header()}, 0).wait().front());
  const Tensors buffers = buffers_for(header.forms, pool);
  return {std::move(header), start(P2p::Kind::kRecv, message, buffers, 1)};
}

void MessageQueue::finish() {
  while (!sends_.empty()) {
    (void)std::move(sends_.front()).wait();
    sends_.pop_front();
  }
}

}  // namespace tessera::pipeline::detail
