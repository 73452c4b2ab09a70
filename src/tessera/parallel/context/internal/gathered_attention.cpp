#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <numeric>
#include <optional>
#include <vector>

#include "tessera/comm/collectives.h"
#include "tessera/parallel/context/internal/exchanges.h"
#include "tessera/parallel/recorded_work.h"

namespace tessera::context::detail {
namespace {

constexpr int64_t kHeads = 1;

/// How this rank's queries attend to all keys.
struct GatheredBlocks {
  std::vector<AttentionBlocks> parts;
  /// Whether there is one part, with the keys in ascending positions; otherwise there is one per
  /// rank.
  bool ascending = false;
};

// Keys in ascending order need fewer blocks if each rank holds long runs of positions.
GatheredBlocks gathered_blocks(const BatchLayout& layout, int64_t rank, int64_t ranks) {
  GatheredBlocks by_rank;
  size_t count = 0;
  for (int64_t from = 0; from < ranks; ++from) {
    by_rank.parts.push_back(blocks_between(layout, rank, from));
    count += by_rank.parts.back().size();
  }
  AttentionBlocks all;
  for (const RowsLayout& rows : layout) {
    const Positions& own = rows.ranks[static_cast<size_t>(rank)];
    Positions keys(own.size() * rows.ranks.size());
    std::iota(keys.begin(), keys.end(), 0);
    add_causal_blocks(all, rows.rows, own, keys, rows.mask);
  }
  if (all.size() > count) return by_rank;
  return {.parts = {std::move(all)}, .ascending = true};
}

struct GatheredAttention {
  GatheredAttention(const Group& given, const SharedLayout& layout, int64_t stride,
                    const UnitLog& records)
      : group(given),
        log(records),
        head_stride(stride),
        blocks(gathered_blocks(*layout, given.rank().value, given.size())),
        ascending(orders_of(*layout, {0, given.size()})),
        by_rank(inverse(ascending)) {}

  AttentionKernel::Results forward(const AttentionInputs& in) const {
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> log_sum_exps;
    for_each_stride(in, [&](int64_t head, const std::vector<at::Tensor>& parts) {
      const UnitSpan product = log.begin(UnitAction::kAttend);
      AttentionSum sum(queries_of(in, in.q, head));
      for (size_t i = 0; i < parts.size(); ++i) {
        sum.add(parts[i][0], parts[i][1], blocks.parts[i]);
      }
      const AttentionKernel::Results results = sum.results();
      product.end();
      outputs.push_back(results[0]);
      log_sum_exps.push_back(results[1]);
    });
    return {at::cat(outputs, kHeads), at::cat(log_sum_exps, kHeads)};
  }

  AttentionInputs backward(const at::Tensor& gradient, const AttentionInputs& in,
                           const AttentionKernel::Results& results) const {
    std::vector<at::Tensor> of_queries;
    std::vector<at::Tensor> of_keys;
    std::optional<RecordedWork<Work>> sending;  // Of the heads before.
    const auto finish = [&] {
      if (sending) of_keys.push_back((*std::move(sending)).wait()[0]);
      sending.reset();
    };
    for_each_stride(in, [&](int64_t head, const std::vector<at::Tensor>& parts) {
      const auto own = [&](const at::Tensor& x) { return queries_of(in, x, head); };
      const UnitSpan product = log.begin(UnitAction::kAttend);
      AttentionGradients gradients(own(gradient), own(in.q), {own(results[0]), own(results[1])});
      std::vector<at::Tensor> sums;
      for (size_t i = 0; i < parts.size(); ++i) {
        sums.push_back(at::zeros(parts[i].sizes(), parts[i].options().dtype(gradient_sum_dtype(
                                                       parts[i].scalar_type()))));
        gradients.add(parts[i][0], parts[i][1], blocks.parts[i], sums[i][0], sums[i][1]);
      }
      of_queries.push_back(gradients.queries());
      product.end();
      finish();
      sending.emplace(reduce_scatter(split(sums), group), log, UnitAction::kExchange);
    });
    finish();
    const at::Tensor all = at::cat(of_keys, 1 + kHeads).to(in.k.scalar_type());
    return {at::cat(of_queries, kHeads), all[0], all[1]};
  }

  Group group;
  UnitLog log;
  int64_t head_stride;
  GatheredBlocks blocks;
  Orders ascending, by_rank;

 private:
  // The query heads that share these key-value heads.
  at::Tensor queries_of(const AttentionInputs& in, const at::Tensor& x, int64_t head) const {
    const int64_t times = in.q.size(kHeads) / in.k.size(kHeads);
    return x.narrow(kHeads, head * times, head_stride * times);
  }

  RecordedWork<Work> start_gather(const AttentionInputs& in, int64_t head) const {
    const auto own = [&](const at::Tensor& x) { return x.narrow(kHeads, head, head_stride); };
    return {all_gather(at::stack({own(in.k), own(in.v)}).unsqueeze(0), group), log,
            UnitAction::kExchange};
  }

  // Keys and values, [2, batch, heads, positions, head size], of each part.
  std::vector<at::Tensor> joined_parts(const at::Tensor& gathered) const {
    if (!blocks.ascending) return gathered.unbind(0);
    // [batch, 2, heads, ranks, positions, head size]: the rows first.
    const at::Tensor rows = gathered.permute({2, 1, 3, 0, 4, 5}).flatten(3, 4);
    return {reordered(rows, ascending, 3).transpose(0, 1)};
  }

  // The same for gradients, the other way round: [ranks, 2, batch, heads, positions, head size].
  at::Tensor split(const std::vector<at::Tensor>& sums) const {
    if (!blocks.ascending) return at::stack(sums);
    const at::Tensor rows = reordered(sums[0].transpose(0, 1), by_rank, 3);
    return rows.unflatten(3, {group.size(), -1}).permute({3, 1, 0, 2, 4, 5}).contiguous();
  }

  template <class Compute>
  void for_each_stride(const AttentionInputs& in, const Compute& compute) const {
    const int64_t heads = in.k.size(kHeads);
    std::optional<RecordedWork<Work>> next(start_gather(in, 0));
    for (int64_t head = 0; head < heads; head += head_stride) {
      const at::Tensor gathered = (*std::move(next)).wait();
      next.reset();
      if (head + head_stride < heads) next.emplace(start_gather(in, head + head_stride));
      compute(head, joined_parts(gathered));
    }
  }
};

}  // namespace

AttentionKernel gathered_attention(const Group& group, const SharedLayout& layout,
                                   int64_t head_stride, const UnitLog& log) {
  const auto shared = std::make_shared<const GatheredAttention>(group, layout, head_stride, log);
  return {.forward = [shared](const AttentionInputs& in) { return shared->forward(in); },
          .backward =
              [shared](const at::Tensor& gradient, const AttentionInputs& in,
                       const AttentionKernel::Results& results) {
                return shared->backward(gradient, in, results);
              }};
}

}  // namespace tessera::context::detail
