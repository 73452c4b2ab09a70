#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <optional>

#include "tessera/comm/collectives.h"
#include "tessera/parallel/context/internal/exchanges.h"
#include "tessera/parallel/recorded_work.h"

namespace tessera::context::detail {
namespace {

enum Tag : int { kKeys = 0, kGradients = 1 };

/// A tensor on its way from rank to rank.
class Passing {
 public:
  /// Sends `own` to the next rank and receives from the previous one.
  Passing(const Group& group, const at::Tensor& own, Tag tag, const UnitLog& log)
      : received_(at::empty_like(own)), work_(start(group, own, tag), log, UnitAction::kExchange) {}

  at::Tensor wait() && {
    (void)std::move(work_).wait();
    return received_;
  }

 private:
  ListWork start(const Group& group, const at::Tensor& own, Tag tag) const {
    const int64_t rank = group.rank().value;
    const int64_t size = group.size();
    return batch_send_recv(
        std::array{P2p{P2p::Kind::kSend, own, GroupRank{(rank + 1) % size}, tag},
                   P2p{P2p::Kind::kRecv, received_, GroupRank{(rank + size - 1) % size}, tag}},
        group);
  }

  at::Tensor received_;
  RecordedWork<ListWork> work_;
};

/// The keys and values that this rank has at each step.
class Ring {
 public:
  Ring(const Group& group, const AttentionInputs& inputs, const UnitLog& log)
      : group_(group), log_(log), now_(at::stack({inputs.k, inputs.v})) {}

  /// Calls `compute` with the keys, the values and the rank that they are from, for all ranks. The
  /// next ones are on their way meanwhile.
  template <class Compute>
  void run(const Compute& compute) {
    const int64_t size = group_.size();
    for (int64_t step = 0; step < size; ++step) {
      std::optional<Passing> next;
      if (step + 1 < size) next.emplace(group_, now_, kKeys, log_);
      compute(now_[0], now_[1], (group_.rank().value + size - step) % size);
      if (next) now_ = (*std::move(next)).wait();
    }
  }

 private:
  const Group& group_;
  const UnitLog& log_;
  at::Tensor now_;
};

struct RingAttention {
  Group group;
  SharedLayout layout;
  UnitLog log;

  AttentionBlocks blocks(int64_t from) const {
    return blocks_between(*layout, group.rank().value, from);
  }

  AttentionKernel::Results forward(const AttentionInputs& in) const {
    AttentionSum sum(in.q);
    Ring(group, in, log).run([&](const at::Tensor& keys, const at::Tensor& values, int64_t from) {
      const UnitSpan product = log.begin(UnitAction::kAttend);
      sum.add(keys, values, blocks(from));
      product.end();
    });
    return sum.results();
  }

  AttentionInputs backward(const at::Tensor& gradient, const AttentionInputs& in,
                           const AttentionKernel::Results& results) const {
    AttentionGradients gradients(gradient, in.q, results);
    const at::TensorOptions options = in.k.options().dtype(gradient_sum_dtype(in.k.scalar_type()));
    std::optional<Passing> arriving;
    at::Tensor sum;
    Ring(group, in, log).run([&](const at::Tensor& keys, const at::Tensor& values, int64_t from) {
      const UnitSpan product = log.begin(UnitAction::kAttend);
      sum = at::zeros({2, in.k.size(0), in.k.size(1), in.k.size(2), in.k.size(3)}, options);
      gradients.add(keys, values, blocks(from), sum[0], sum[1]);
      product.end();
      if (arriving) sum.add_((*std::move(arriving)).wait());
      arriving.reset();
      if (group.size() > 1) arriving.emplace(group, sum, kGradients, log);
    });
    if (arriving) sum = (*std::move(arriving)).wait();
    sum = sum.to(in.k.scalar_type());
    return {gradients.queries(), sum[0], sum[1]};
  }
};

}  // namespace

AttentionKernel ring_attention(const Group& group, const SharedLayout& layout, const UnitLog& log) {
  const RingAttention ring{group, layout, log};
  return {.forward = [ring](const AttentionInputs& in) { return ring.forward(in); },
          .backward =
              [ring](const at::Tensor& gradient, const AttentionInputs& in,
                     const AttentionKernel::Results& results) {
                return ring.backward(gradient, in, results);
              }};
}

}  // namespace tessera::context::detail
