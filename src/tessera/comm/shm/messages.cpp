#include "tessera/comm/shm/messages.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/shm/numbers.h"

namespace tessera::comm::detail::shm {
namespace {

// Messages that are not in the sender's cache any more are read where they lie. Others arrive
// sooner if one core writes chunks while the other reads them.
constexpr size_t kLeastInPlace = kPastCache;

}  // namespace

Sender::Sender(const Board& board, Patience& patience, int to)
    : Activity(board, patience), to_(to), ring_(board.ring(board.rank(), to)), helped_(*this) {}

std::shared_ptr<Pending> Sender::send(const std::byte* data, size_t bytes, int tag,
                                      std::shared_ptr<void> kept) {
  auto message = std::make_shared<Message>();
  message->data = data;
  message->bytes = bytes;
  message->tag = static_cast<uint64_t>(tag);
  message->place = bytes >= kLeastInPlace ? board().place_of(data) : 0;
  message->kept = std::move(kept);
  {
    const std::lock_guard lock(mutex());
    if (!has_ring_) board().commit_ring(to_);
    has_ring_ = true;
    queue_.push_back(message);
    set_unfinished(queue_.size());
    (void)advance();
  }
  if (!message->ended.load(std::memory_order_relaxed)) tell_helper();
  return message;
}

Awaited Sender::advance() {
  for (; !queue_.empty(); queue_.pop_front(), set_unfinished(queue_.size())) {
    Message& message = *queue_.front();
    while (!message.is_written) {
      const Awaited space{&ring_.read, written_ + 1 - kNumRingChunks, to_};
      if (!space.reached()) return space;
      write_chunk(message);
    }
    const Awaited taken{&ring_.read, written_, to_};
    if (message.place != 0 && !taken.reached()) return taken;
    message.end();
  }
  return {};
}

void Sender::write_chunk(Message& message) {
  RingChunk& chunk = board().ring_chunk(board().rank(), to_, written_);
  chunk.tag = message.tag;
  chunk.message_bytes = message.bytes;
  chunk.place = message.place;
  if (message.place == 0) {
    const size_t bytes = std::min(kRingChunkBytes, message.bytes - message.sent);
    copy_for_others(chunk.data.data(), message.data + message.sent, bytes);
    message.sent += bytes;
  }
  message.is_written = message.place != 0 || message.sent == message.bytes;
  ring_.written.set(++written_);
}

void Sender::fail(const std::exception_ptr& error) {
  for (const auto& message : queue_) message->end(error);
  queue_.clear();
  set_unfinished(0);
}

Receiver::Receiver(const Board& board, Patience& patience, int from)
    : Activity(board, patience),
      from_(from),
      ring_(board.ring(from, board.rank())),
      helped_(*this) {}

std::shared_ptr<Pending> Receiver::receive(std::byte* data, size_t bytes, int tag,
                                           std::shared_ptr<void> kept) {
  auto wanted = std::make_shared<Wanted>();
  wanted->data = data;
  wanted->bytes = bytes;
  wanted->tag = static_cast<uint64_t>(tag);
  wanted->kept = std::move(kept);
  {
    const std::lock_guard lock(mutex());
    const auto early = std::ranges::find(unexpected_, wanted->tag, &Unexpected::tag);
    if (early != unexpected_.end()) {
      take(*wanted, *early);
      unexpected_.erase(early);
      return wanted;
    }
    wanted_.push_back(wanted);
    set_unfinished(wanted_.size());
    (void)advance();
  }
  if (!wanted->ended.load(std::memory_order_relaxed)) tell_helper();
  return wanted;
}

Awaited Receiver::advance() {
  while (!wanted_.empty()) {
    const Awaited chunk{&ring_.written, read_ + 1, from_};
    if (!chunk.reached()) return chunk;
    if (!current_) begin_message(board().ring_chunk(from_, board().rank(), read_));
    read_chunk();
    if (current_->read == current_->bytes) finish_message();
  }
  return {};
}

Receiver::WantedList::iterator Receiver::find_wanted(uint64_t tag) {
  return std::ranges::find_if(wanted_, [&](const auto& wanted) { return wanted->tag == tag; });
}

void Receiver::begin_message(const RingChunk& chunk) {
  current_ = Current{.tag = chunk.tag, .bytes = chunk.message_bytes};
  const auto wanted = find_wanted(chunk.tag);
  if (wanted != wanted_.end() && (*wanted)->bytes == chunk.message_bytes) {
    current_->wanted = *wanted;
  } else {
    current_->unexpected.resize(chunk.message_bytes);
  }
}

void Receiver::read_chunk() {
  const RingChunk& chunk = board().ring_chunk(from_, board().rank(), read_);
  std::byte* const target = current_->wanted ? current_->wanted->data : current_->unexpected.data();
  const bool whole = chunk.place != 0;
  const std::byte* const source = whole ? board().at(from_, chunk.place) : chunk.data.data();
  const size_t bytes =
      whole ? current_->bytes : std::min(kRingChunkBytes, current_->bytes - current_->read);
  copy_bytes(target + current_->read, source, bytes, current_->bytes >= kPastCache);
  current_->read += bytes;
  ring_.read.set(++read_);
}

void Receiver::finish_message() {
  Current message = std::move(*current_);
  current_.reset();
  if (message.wanted) {
    message.wanted->end();
    wanted_.remove(message.wanted);
  } else {
    Unexpected early{.tag = message.tag, .data = std::move(message.unexpected)};
    const auto wanted = find_wanted(early.tag);
    if (wanted == wanted_.end()) {
      unexpected_.push_back(std::move(early));
    } else {
      take(**wanted, early);
      wanted_.erase(wanted);
    }
  }
  set_unfinished(wanted_.size());
}

void Receiver::take(Wanted& wanted, const Unexpected& message) const {
  if (wanted.bytes != message.data.size()) {
    return wanted.end(std::make_exception_ptr(CommError(concat(
        "the ends of a message differ: rank ", from_, " of the group sends ", message.data.size(),
        " bytes, rank ", board().rank(), " expects ", wanted.bytes, " (tag ", wanted.tag, ")"))));
  }
  copy_bytes(wanted.data, message.data.data(), wanted.bytes);
  wanted.end();
}

void Receiver::fail(const std::exception_ptr& error) {
  for (const auto& wanted : wanted_) wanted->end(error);
  wanted_.clear();
  set_unfinished(0);
}

}  // namespace tessera::comm::detail::shm
