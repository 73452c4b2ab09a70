#include "tessera/parallel/expert/expert_exchange.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <numeric>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/differentiable.h"
#include "tessera/tensor/copied_to.h"

namespace tessera {
namespace {

int64_t sum_of(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

std::vector<int64_t> sums_of_rows(const at::Tensor& table) {
  const at::Tensor sums = table.sum(1).contiguous();
  return {sums.const_data_ptr<int64_t>(), sums.const_data_ptr<int64_t>() + sums.numel()};
}

at::Tensor gathered(const at::Tensor& rows, const Group& group) {
  return at::cat(all_gather_uneven(rows, group).wait());
}

at::Tensor scattered(const at::Tensor& rows, const Sizes& sizes, const Group& group) {
  return reduce_scatter(rows, group, ReduceOp::kSum, /*dim=*/0, sizes).wait();
}

at::Tensor permuted(const at::Tensor& rows, const at::Tensor& order, const at::Tensor& inverse) {
  return differentiable::linear_map(
      rows, [=](const at::Tensor& x) { return x.index_select(0, order); },
      [=](const at::Tensor& g) { return g.index_select(0, inverse); });
}

}  // namespace

Span own_experts(int64_t num_experts, const Pass& pass) {
  if (pass.experts == nullptr) return {0, num_experts};
  const Group& ep = pass.experts->ep;
  TSR_CHECK(num_experts % ep.size() == 0, "ep ", ep.size(), " does not divide ", num_experts,
            " experts; choose a divisor");
  const int64_t each = num_experts / ep.size();
  return {ep.rank().value * each, (ep.rank().value + 1) * each};
}

ExpertExchange::ExpertExchange(std::span<const int64_t> counts, at::Device device, const Pass& pass)
    : counts_(counts.begin(), counts.end()) {
  const ExpertParallel* const experts = pass.experts;
  if (experts == nullptr || (experts->ep.size() == 1 && experts->etp.size() == 1)) return;
  parallel_ = experts;
  const int64_t ranks = experts->ep.size();
  own_experts(static_cast<int64_t>(counts.size()), pass);
  const at::Tensor mine = at::tensor(counts_).view({ranks, -1});
  const at::Tensor theirs = all_to_all(mine, experts->ep).wait();
  sent_ = sums_of_rows(mine);
  received_ = sums_of_rows(theirs);
  // [ranks of etp, ranks of ep, own experts]
  const at::Tensor all =
      all_gather(theirs.unsqueeze(0).contiguous(), experts->etp).wait().contiguous();
  gathered_ = sums_of_rows(all.flatten(1));
  const at::Tensor own = all.sum(at::IntArrayRef{0, 1}).contiguous();
  counts_.assign(own.const_data_ptr<int64_t>(), own.const_data_ptr<int64_t>() + own.numel());
  sort(all.flatten(0, 1));
  to_experts_ = copied_to(device, to_experts_);
  from_experts_ = copied_to(device, from_experts_);
}

// Rows arrive by rank, then by expert. `received` is [ranks, own experts].
void ExpertExchange::sort(const at::Tensor& received) {
  const int64_t total = sum_of(counts_);
  to_experts_ = at::empty({total}, at::kLong);
  from_experts_ = at::empty({total}, at::kLong);
  auto* const to = to_experts_.mutable_data_ptr<int64_t>();
  auto* const from = from_experts_.mutable_data_ptr<int64_t>();
  std::vector<int64_t> next(counts_.size());
  for (size_t e = 1; e < next.size(); ++e) next[e] = next[e - 1] + counts_[e - 1];
  const int64_t* count = received.const_data_ptr<int64_t>();
  int64_t arrived = 0;
  for (int64_t rank = 0; rank < received.size(0); ++rank) {
    for (int64_t& place : next) {
      for (int64_t i = 0; i < *count; ++i) {
        to[place] = arrived;
        from[arrived++] = place++;
      }
      ++count;
    }
  }
}

ExpertExchange::InFlight ExpertExchange::start(const at::Tensor& rows) const {
  if (parallel_ == nullptr) return {.tensor = rows};
  return differentiable::start_all_to_all(rows, sent_, received_, parallel_->ep);
}

at::Tensor ExpertExchange::finish(const InFlight& sent) const {
  if (parallel_ == nullptr) return sent.tensor;
  at::Tensor arrived = differentiable::finish(sent);
  const Group etp = parallel_->etp;
  if (etp.size() > 1) {
    arrived = differentiable::linear_map(
        arrived, [=](const at::Tensor& x) { return gathered(x, etp); },
        [=, sizes = gathered_](const at::Tensor& g) { return scattered(g, sizes, etp); });
  }
  return permuted(arrived, to_experts_, from_experts_);
}

at::Tensor ExpertExchange::give_back(const at::Tensor& results) const {
  if (parallel_ == nullptr) return results;
  at::Tensor arrived = permuted(results, from_experts_, to_experts_);
  const Group etp = parallel_->etp;
  if (etp.size() > 1) {
    arrived = differentiable::linear_map(
        arrived, [=, sizes = gathered_](const at::Tensor& x) { return scattered(x, sizes, etp); },
        [=](const at::Tensor& g) { return gathered(g, etp); });
  }
  return differentiable::all_to_all(arrived, received_, sent_, parallel_->ep);
}

}  // namespace tessera
