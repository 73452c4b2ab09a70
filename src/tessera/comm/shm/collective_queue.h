#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/comm/shm/activity.h"
#include "tessera/comm/shm/helper.h"
#include "tessera/comm/shm/reductions.h"
#include "tessera/comm/shm/transfers.h"

namespace tessera::comm::detail::shm {

/// The collectives of one communicator, in the order in which all its ranks start them; see
/// reductions.h and transfers.h.
///
/// The pointers must stay valid until the operation has ended: `kept` owns the memory.
class CollectiveQueue : public Activity {
 public:
  CollectiveQueue(const Board& board, Patience& patience)
      : Activity(board, patience), rounds_(board), helped_(*this) {}

  using Kept = std::shared_ptr<void>;
  using Operation = std::shared_ptr<Pending>;

  Operation all_reduce(std::byte* data, const ReduceCall& call, Kept kept) {
    return start(shm::all_reduce(rounds_, data, call), std::move(kept));
  }
  Operation reduce(std::byte* data, const ReduceCall& call, int root, Kept kept) {
    return start(shm::reduce(rounds_, data, call, root), std::move(kept));
  }
  Operation reduce_scatter(std::byte* output, const std::byte* input, const ReduceCall& call,
                           Kept kept) {
    return start(shm::reduce_scatter(rounds_, output, input, call), std::move(kept));
  }
  Operation all_gather(std::byte* output, const std::byte* input, size_t bytes, Kept kept) {
    return start(shm::all_gather(rounds_, output, input, bytes), std::move(kept));
  }
  Operation broadcast(std::byte* data, size_t bytes, int root, Kept kept) {
    return start(shm::broadcast(rounds_, data, bytes, root), std::move(kept));
  }
  Operation gather(std::vector<std::byte*> outputs, const std::byte* input, size_t bytes, int root,
                   Kept kept) {
    return start(shm::gather(rounds_, std::move(outputs), input, bytes, root), std::move(kept));
  }
  Operation scatter(std::byte* output, std::vector<const std::byte*> inputs, size_t bytes, int root,
                    Kept kept) {
    return start(shm::scatter(rounds_, output, std::move(inputs), bytes, root), std::move(kept));
  }
  Operation all_to_all(std::byte* output, const std::byte* input, std::vector<size_t> receive,
                       std::vector<size_t> send, Kept kept) {
    return start(shm::all_to_all(rounds_, output, input, std::move(receive), std::move(send)),
                 std::move(kept));
  }
  Operation barrier() { return start(shm::barrier(rounds_), nullptr); }

 protected:
  Awaited advance() override;
  void fail(const std::exception_ptr& error) override;

 private:
  struct Collective : Pending {
    Steps steps;
  };
  Operation start(Steps steps, Kept kept);

  Rounds rounds_;
  std::deque<std::shared_ptr<Collective>> queue_;
  std::exception_ptr error_ = nullptr;  // Of the first that failed: the rounds do not fit any more.
  const Helped helped_;                 // Last member: it ends first.
};

}  // namespace tessera::comm::detail::shm
