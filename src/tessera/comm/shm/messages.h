#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/comm/shm/activity.h"
#include "tessera/comm/shm/helper.h"

namespace tessera::comm::detail::shm {

/// The messages from this rank to another: they go through a ring of chunks, in order. Of a large
/// one in memory that the other rank can read, only its place does.
class Sender : public Activity {
 public:
  Sender(const Board& board, Patience& patience, int to);

  /// Ends when all of it is in the ring, or was read.
  std::shared_ptr<Pending> send(const std::byte* data, size_t bytes, int tag,
                                std::shared_ptr<void> kept);

 protected:
  Awaited advance() override;
  void fail(const std::exception_ptr& error) override;

 private:
  struct Message : Pending {
    const std::byte* data = nullptr;
    size_t bytes = 0;
    size_t sent = 0;
    uint64_t tag = 0;
    uint64_t place = 0;  // 0 if it goes through the ring.
    bool is_written = false;
  };
  void write_chunk(Message& message);

  const int to_;
  RingLine& ring_;
  uint32_t written_ = 0;
  bool has_ring_ = false;
  std::deque<std::shared_ptr<Message>> queue_;
  const Helped helped_;  // Last member: it ends first.
};

/// The messages from another rank to this one. A message goes to the first receive with its tag. If
/// there is none, it stays in the ring until a receive wants a later message.
class Receiver : public Activity {
 public:
  Receiver(const Board& board, Patience& patience, int from);

  std::shared_ptr<Pending> receive(std::byte* data, size_t bytes, int tag,
                                   std::shared_ptr<void> kept);

 protected:
  Awaited advance() override;
  void fail(const std::exception_ptr& error) override;

 private:
  struct Wanted : Pending {
    std::byte* data = nullptr;
    size_t bytes = 0;
    uint64_t tag = 0;
  };
  /// A message that no receive wants yet.
  struct Unexpected {
    uint64_t tag = 0;
    std::vector<std::byte> data;
  };
  /// The message of which some chunks may be missing yet.
  struct Current {
    uint64_t tag = 0;
    size_t bytes = 0;
    size_t read = 0;
    std::shared_ptr<Wanted> wanted = {};  // Null if it is unexpected.
    std::vector<std::byte> unexpected = {};
  };
  using WantedList = std::list<std::shared_ptr<Wanted>>;

  void begin_message(const RingChunk& chunk);
  void read_chunk();
  void finish_message();
  void take(Wanted& wanted, const Unexpected& message) const;
  WantedList::iterator find_wanted(uint64_t tag);

  const int from_;
  RingLine& ring_;
  uint32_t read_ = 0;
  std::optional<Current> current_;
  WantedList wanted_;
  std::list<Unexpected> unexpected_;
  const Helped helped_;  // Last member: it ends first.
};

}  // namespace tessera::comm::detail::shm
