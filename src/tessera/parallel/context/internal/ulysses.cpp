#include <ATen/ops/cat.h>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/differentiable.h"
#include "tessera/parallel/context/internal/exchanges.h"
#include "tessera/parallel/recorded_work.h"

namespace tessera::context::detail {
namespace {

constexpr int64_t kHeads = 1;
constexpr int64_t kPositions = 2;

// At least one head per rank: neighbouring ranks get copies of a key-value head, and the backward
// pass sums their gradients.
at::Tensor enough_heads(const at::Tensor& heads, int64_t ranks) {
  const int64_t count = heads.size(kHeads);
  if (count % ranks == 0) return heads;
  TSR_CHECK(ranks % count == 0, "ulysses cannot divide ", count, " heads between ", ranks,
            " ranks; choose a divisor or a multiple of ", count);
  return heads.repeat_interleave(ranks / count, kHeads);
}

}  // namespace

HeadExchange::HeadExchange(const Group& group, const BatchLayout& layout, Span ranks,
                           const UnitLog& log)
    : group_(group),
      ascending_(std::make_shared<const Orders>(orders_of(layout, ranks))),
      by_rank_(std::make_shared<const Orders>(inverse(*ascending_))),
      log_(log) {}

at::Tensor HeadExchange::exchanged(const at::Tensor& sent) const {
  return RecordedWork(all_to_all(sent, group_), log_, UnitAction::kExchange).wait();
}

// [batch, ranks · heads, tokens, size] → [batch, heads, ranks · tokens, size]
at::Tensor HeadExchange::heads_of(const at::Tensor& tokens) const {
  const at::Tensor sent =
      tokens.unflatten(kHeads, {group_.size(), -1}).transpose(0, 1).contiguous();
  const at::Tensor received = exchanged(sent);  // [ranks, batch, heads, …]
  return reordered(received.permute({1, 2, 0, 3, 4}).flatten(kPositions, 3), *ascending_,
                   kPositions);
}

at::Tensor HeadExchange::tokens_of(const at::Tensor& heads) const {
  const at::Tensor sent = reordered(heads, *by_rank_, kPositions)
                              .unflatten(kPositions, {group_.size(), -1})
                              .permute({2, 0, 1, 3, 4})
                              .contiguous();
  const at::Tensor received = exchanged(sent);
  return received.transpose(0, 1).flatten(kHeads, kHeads + 1);
}

// One all-to-all for all three.
AttentionInputs HeadExchange::to_heads(const AttentionInputs& inputs, KeptResults* kept) const {
  const int64_t ranks = group_.size();
  std::vector<at::Tensor> parts;
  std::vector<int64_t> sizes;
  for (const at::Tensor& x :
       {inputs.q, enough_heads(inputs.k, ranks), enough_heads(inputs.v, ranks)}) {
    parts.push_back(x.unflatten(kHeads, {ranks, -1}));
    sizes.push_back(parts.back().size(kHeads + 1));
  }
  const at::Tensor joined = at::cat(parts, kHeads + 1).flatten(kHeads, kHeads + 1);
  const at::Tensor heads = differentiable::linear_map(
      joined,
      [&](const at::Tensor& x) {
        return kept_or_computed(kept, [&] { return KeptResults::Results{heads_of(x)}; }).at(0);
      },
      [self = *this](const at::Tensor& gradient) { return self.tokens_of(gradient); });
  const std::vector<at::Tensor> split = heads.split_with_sizes(sizes, kHeads);
  return {split[0], split[1], split[2]};
}

at::Tensor HeadExchange::to_tokens(const at::Tensor& output, KeptResults* kept) const {
  return differentiable::linear_map(
      output,
      [&](const at::Tensor& x) {
        return kept_or_computed(kept, [&] { return KeptResults::Results{tokens_of(x)}; }).at(0);
      },
      [self = *this](const at::Tensor& gradient) { return self.heads_of(gradient); });
}

}  // namespace tessera::context::detail
