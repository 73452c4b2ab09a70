#include "tessera/parallel/tensor/internal/pieces.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <array>
#include <utility>

#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/parallel/tensor/internal/layer_call.h"

namespace tessera::tensor::detail {
namespace {

// One rank's position in a ring.
struct Ring {
  explicit Ring(const Group& group)
      : lane(on_lane(group, Lane::kP2p)), size(group.size()), rank(group.rank().value) {}

  int64_t after(int64_t distance) const { return (rank + distance) % size; }
  int64_t before(int64_t distance) const { return (rank + size - distance) % size; }

  // At one distance every rank sends one message and receives one, so no rank waits for a third.
  ListWork exchange(const at::Tensor& sent, int64_t to, const at::Tensor& received,
                    int64_t from) const {
    const std::array messages{P2p{P2p::Kind::kSend, sent, GroupRank{to}},
                              P2p{P2p::Kind::kRecv, received, GroupRank{from}}};
    return batch_send_recv(messages, lane);
  }

  Group lane;
  int64_t size;
  int64_t rank;
};

at::Tensor sum_in_order(const std::vector<at::Tensor>& parts) {
  at::Tensor sum = at::add(parts[0], parts[1]);
  for (size_t i = 2; i < parts.size(); ++i) sum.add_(parts[i]);
  return sum;
}

}  // namespace

GatherInPieces::GatherInPieces(const at::Tensor& mine, const Group& group)
    : mine_(mine.detach().contiguous()), rank_(group.rank().value) {
  const Ring ring(group);
  std::vector<int64_t> shape{ring.size};
  shape.insert(shape.end(), mine.sizes().begin(), mine.sizes().end());
  all_ = at::empty(shape, mine_.options());
  for (int64_t distance = 1; distance < ring.size; ++distance) {
    const int64_t from = ring.after(distance);
    arriving_.push_back(ring.exchange(mine_, ring.before(distance), all_[from], from));
  }
}

void GatherInPieces::for_each(const std::function<void(int64_t, const at::Tensor&)>& use) {
  use(rank_, mine_);
  for (size_t i = 0; i < arriving_.size(); ++i) {
    (void)std::move(arriving_[i]).wait();
    const int64_t from = (rank_ + 1 + static_cast<int64_t>(i)) % all_.size(0);
    use(from, all_[from]);
  }
}

at::Tensor GatherInPieces::whole() const {
  all_[rank_].copy_(mine_);
  return all_.movedim(0, kPositions).flatten(kPositions, kPositions + 1);
}

at::Tensor reduce_scatter_in_pieces(const std::function<at::Tensor(int64_t)>& piece,
                                    const Group& group) {
  const Ring ring(group);
  std::vector<at::Tensor> parts(static_cast<size_t>(ring.size));
  std::vector<ListWork> arriving;
  for (int64_t distance = 1; distance < ring.size; ++distance) {
    const int64_t to = ring.after(distance);
    const int64_t from = ring.before(distance);
    const at::Tensor sent = piece(to);
    at::Tensor& received = parts[static_cast<size_t>(from)];
    received = at::empty_like(sent);
    arriving.push_back(ring.exchange(sent, to, received, from));
  }
  parts[static_cast<size_t>(ring.rank)] = piece(ring.rank);
  for (ListWork& work : arriving) (void)std::move(work).wait();
  return sum_in_order(parts);
}

}  // namespace tessera::tensor::detail
