#include "tessera/parallel/tensor/internal/pieces.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
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

// All ranks have equally many positions, so all cut them alike.
std::vector<Span> spans_of(int64_t positions) {
  constexpr int64_t kMost = 2;
  const int64_t count = std::min(positions, kMost);
  std::vector<Span> spans;
  for (int64_t i = 0; i < count; ++i) spans.push_back(chunk(positions, count, i));
  return spans;
}

at::Tensor slice_of(const at::Tensor& x, const Span& span) {
  return x.narrow(kPositions, span.begin, span.size());
}

void sum_in_order(const std::vector<at::Tensor>& parts, at::Tensor out) {
  at::add_out(out, parts[0], parts[1]);
  for (size_t i = 2; i < parts.size(); ++i) out.add_(parts[i]);
}

}  // namespace

GatherInPieces::GatherInPieces(const at::Tensor& mine, const Group& group)
    : mine_(mine.detach().contiguous()), rank_(group.rank().value), size_(group.size()) {
  const Ring ring(group);
  for (int64_t distance = 1; distance < ring.size; ++distance) {
    const int64_t from = ring.after(distance);
    for (const Span& span : spans_of(mine_.size(kPositions))) {
      const at::Tensor sent = slice_of(mine_, span).contiguous();
      const at::Tensor values = at::empty_like(sent);
      ListWork work = ring.exchange(sent, ring.before(distance), values, from);
      arriving_.push_back({{from, span}, values, std::move(work)});
    }
  }
}

void GatherInPieces::for_each(const std::function<void(const Piece&, const at::Tensor&)>& use) {
  use({rank_, {0, mine_.size(kPositions)}}, mine_);
  for (Arriving& next : arriving_) {
    (void)std::move(next.work).wait();
    use(next.piece, next.values);
  }
}

at::Tensor GatherInPieces::whole() const {
  std::vector<int64_t> shape = mine_.sizes().vec();
  const int64_t positions = shape[kPositions];
  shape[kPositions] *= size_;
  const at::Tensor all = at::empty(shape, mine_.options());
  all.narrow(kPositions, rank_ * positions, positions).copy_(mine_);
  for (const Arriving& arrived : arriving_) {
    const Span& span = arrived.piece.positions;
    all.narrow(kPositions, arrived.piece.rank * positions + span.begin, span.size())
        .copy_(arrived.values);
  }
  return all;
}

at::Tensor reduce_scatter_in_pieces(const std::function<at::Tensor(const Piece&)>& compute,
                                    int64_t positions, const Group& group) {
  const Ring ring(group);
  const std::vector<Span> spans = spans_of(positions);
  const auto own = static_cast<size_t>(ring.rank);
  // Of each piece of this rank's positions, the part of every rank.
  std::vector<std::vector<at::Tensor>> parts(
      spans.size(), std::vector<at::Tensor>(static_cast<size_t>(ring.size)));
  std::vector<ListWork> arriving;
  for (int64_t distance = 1; distance < ring.size; ++distance) {
    const int64_t to = ring.after(distance);
    const int64_t from = ring.before(distance);
    for (size_t i = 0; i < spans.size(); ++i) {
      const at::Tensor sent = compute({to, spans[i]});
      at::Tensor& received = parts[i][static_cast<size_t>(from)];
      received = at::empty_like(sent);
      arriving.push_back(ring.exchange(sent, to, received, from));
    }
  }
  const at::Tensor mine = compute({ring.rank, {0, positions}});
  for (ListWork& work : arriving) (void)std::move(work).wait();
  const at::Tensor sum = at::empty_like(mine);
  for (size_t i = 0; i < spans.size(); ++i) {
    parts[i][own] = slice_of(mine, spans[i]);
    sum_in_order(parts[i], slice_of(sum, spans[i]));
  }
  return sum;
}

}  // namespace tessera::tensor::detail
