#include "tessera/layer/router_capacity.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

/// Columns of the pairs that ranks gather. Whole numbers up to 2^53 are exact.
enum Column : int64_t { kExpert, kPlace, kWeight };

// Tokens with the same prefix have equal weights up to rounding, which differs between layouts. So
// weights are compared in steps of this part of 1.
constexpr double kSteps = 1024;

// The rows in ascending order of a column; equal ones stay in their order.
at::Tensor sorted_by(const at::Tensor& pairs, Column column, bool descending = false) {
  const auto [values, order] = at::sort(pairs.select(1, column), /*stable=*/true, 0, descending);
  return pairs.index_select(0, order);
}

// Pairs by expert, the ones to keep first.
at::Tensor ranked(at::Tensor pairs, DropPolicy policy) {
  pairs = sorted_by(pairs, kPlace);
  if (policy == DropPolicy::kProbs) pairs = sorted_by(pairs, kWeight, /*descending=*/true);
  return sorted_by(pairs, kExpert);
}

// How many pairs of the same expert come before each pair of a sorted table.
at::Tensor rank_within_expert(const at::Tensor& experts, int64_t num_experts) {
  const at::Tensor counts = at::bincount(experts, {}, num_experts);
  const at::Tensor starts = counts.cumsum(0) - counts;
  return at::arange(experts.size(0), experts.options()) - starts.index_select(0, experts);
}

// [batch, positions, 1]
at::Tensor places_of(const Routing& routing, const at::Tensor& given) {
  if (given.defined()) return given.unsqueeze(-1);
  const at::IntArrayRef shape = routing.experts.sizes();
  return at::arange(shape[0] * shape[1], routing.experts.options()).view({shape[0], shape[1], 1});
}

at::Tensor ids_of(const at::Tensor& experts, const at::Tensor& places, int64_t num_experts) {
  return places * num_experts + experts;
}

}  // namespace

int64_t expert_capacity(double factor, int64_t pairs, int64_t experts) {
  // Rounding must not add a row: 1.1 · 10 is a little more than 11.
  constexpr double kBelow = 1 - 1e-12;
  const double mean = static_cast<double>(pairs) / static_cast<double>(experts);
  return static_cast<int64_t>(std::ceil(factor * mean * kBelow));
}

RouterCapacity::RouterCapacity(const CapacityOptions& options, int64_t experts, CapacityRanks ranks)
    : options_(options), experts_(experts), ranks_(std::move(ranks)) {
  TSR_CHECK(std::isfinite(options.factor) && options.factor > 0, "a capacity factor of ",
            options.factor, "; it must be a finite number above 0");
}

void RouterCapacity::begin() {
  end();
  in_step_ = true;
}

void RouterCapacity::end() {
  in_step_ = false;
  dropped_.clear();
}

at::Tensor RouterCapacity::decide(const Routing& routing, const at::Tensor& places) const {
  const at::Tensor experts = routing.experts.flatten();
  at::Tensor counts = at::bincount(experts, {}, experts_);
  if (ranks_.sum) counts = ranks_.sum(counts);
  const at::Tensor of_all = counts.cpu();
  const int64_t capacity = expert_capacity(options_.factor, of_all.sum().item<int64_t>(), experts_);
  if (of_all.max().item<int64_t>() <= capacity) return at::empty({0}, experts.options());
  // Experts with room keep all pairs, so the ranks need not know those.
  const at::Tensor full = (counts > capacity).index_select(0, experts);
  const at::Tensor pairs =
      at::stack(
          {experts.to(at::kDouble), places.expand_as(routing.experts).flatten().to(at::kDouble),
           (routing.weights.detach().flatten().to(at::kDouble) * kSteps).round()},
          1)
          .index_select(0, full.nonzero().flatten());
  const at::Tensor all = ranked(ranks_.gather ? ranks_.gather(pairs) : pairs, options_.policy);
  const at::Tensor expert = all.select(1, kExpert).to(at::kLong);
  const at::Tensor place = all.select(1, kPlace).to(at::kLong);
  const at::Tensor over = rank_within_expert(expert, experts_) >= capacity;
  return ids_of(expert, place, experts_).index_select(0, over.nonzero().flatten());
}

at::Tensor RouterCapacity::keep(const Routing& routing, const at::Tensor& given, int64_t layer) {
  if (!in_step_) return routing.experts;
  const at::NoGradGuard no_grad;
  const at::Tensor places = places_of(routing, given);
  const auto known = dropped_.find(layer);
  const at::Tensor dropped =
      known != dropped_.end() ? known->second : dropped_[layer] = decide(routing, places);
  if (dropped.numel() == 0) return routing.experts;
  const at::Tensor ids = ids_of(routing.experts, places, experts_);
  return routing.experts.masked_fill(at::isin(ids, dropped), kNoExpert);
}

}  // namespace tessera
