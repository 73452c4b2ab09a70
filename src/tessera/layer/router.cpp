#include "tessera/layer/router.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-20;  // Keeps a sum of sigmoids above 0.

// The indices of the largest values of each row; of equal ones the first.
at::Tensor best(const at::Tensor& values, int64_t count) {
  const auto [sorted, order] = at::sort(values, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  return order.narrow(-1, 0, count);
}

at::Tensor scores_of(const at::Tensor& logits, RouterScore score) {
  return score == RouterScore::kSoftmax ? at::softmax(logits, -1) : at::sigmoid(logits);
}

// Without the experts of other groups than the best.
at::Tensor within_groups(const at::Tensor& scores, const RouterOptions& options) {
  if (options.top_groups == options.num_groups) return scores;
  const at::Tensor grouped = scores.unflatten(-1, {options.num_groups, -1});
  const int64_t counted = options.top_k / options.top_groups;
  const at::Tensor sums = grouped.gather(-1, best(grouped, counted)).sum(-1);
  const at::Tensor chosen = at::zeros_like(sums, at::kBool);
  const at::Tensor marked = chosen.scatter(-1, best(sums, options.top_groups), 1);
  return grouped.masked_fill(marked.logical_not().unsqueeze(-1), kNothing).flatten(-2);
}

at::Tensor weights_of(const at::Tensor& scores, const RouterOptions& options) {
  if (!options.normalize) return scores * options.scale;
  const at::Tensor sums = scores.sum(-1, /*keepdim=*/true);
  const bool sigmoid = options.score == RouterScore::kSigmoid;
  return scores / (sigmoid ? sums + kTiny : sums) * options.scale;
}

at::Tensor probabilities_of(const at::Tensor& scores, RouterScore score) {
  return score == RouterScore::kSoftmax ? scores : scores / (scores.sum(-1, true) + kTiny);
}

}  // namespace

void check(const RouterOptions& options, int64_t num_experts) {
  TSR_CHECK(1 <= options.top_k && options.top_k <= num_experts, "top_k=", options.top_k,
            "; a token can visit from 1 to ", num_experts, " experts");
  TSR_CHECK(options.num_groups >= 1 && num_experts % options.num_groups == 0,
            "num_groups=", options.num_groups, " does not divide ", num_experts,
            " experts; choose a divisor");
  TSR_CHECK(1 <= options.top_groups && options.top_groups <= options.num_groups &&
                options.top_k % options.top_groups == 0,
            "top_groups=", options.top_groups, " must be from 1 to ", options.num_groups,
            " groups, and divide top_k=", options.top_k);
  const int64_t reachable = num_experts / options.num_groups * options.top_groups;
  TSR_CHECK(options.top_k <= reachable, "top_k=", options.top_k, ", but ", options.top_groups,
            " groups only have ", reachable, " experts");
  TSR_CHECK(options.score_first || options.score == RouterScore::kSigmoid || options.top_k > 1,
            "the softmax of one expert's logit is always 1; with top_k=1, score all experts first");
}

Routing route(const at::Tensor& logits, const RouterOptions& options, const at::Tensor& bias) {
  check(options, logits.size(-1));
  const at::Tensor wide = logits.element_size() < 4 ? logits.to(at::kFloat) : logits;
  const at::Tensor scores = scores_of(wide, options.score);
  at::Tensor choice = (options.score_first ? scores : wide).detach();
  if (bias.defined()) choice = choice + bias;
  const at::Tensor experts = best(within_groups(choice, options), options.top_k);
  const at::Tensor chosen = options.score_first
                                ? scores.gather(-1, experts)
                                : scores_of(wide.gather(-1, experts), options.score);
  return {.experts = experts,
          .weights = weights_of(chosen, options),
          .probabilities = probabilities_of(scores.detach(), options.score)};
}

void update_bias_(const at::Tensor& bias, const at::Tensor& counts, double rate) {
  // Whole numbers, so that all ranks and layouts find the same signs.
  const at::Tensor above = counts.to(at::kLong) * counts.numel() - counts.sum().to(at::kLong);
  bias.sub_(above.sign().to(bias.scalar_type()), rate);
}

}  // namespace tessera
