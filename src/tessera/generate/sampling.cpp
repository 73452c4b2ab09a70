#include "tessera/generate/sampling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/random.h"

namespace tessera {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

at::Tensor keep_top_k(const at::Tensor& logits, int64_t count) {
  const int64_t kept = std::min(count, logits.size(-1));
  const at::Tensor least = std::get<0>(at::topk(logits, kept)).narrow(-1, kept - 1, 1);
  return logits.masked_fill(logits < least, kNever);
}

// The smallest set of tokens that reaches the probability; the likeliest is always in it.
at::Tensor keep_top_p(const at::Tensor& logits, double probability) {
  const auto [ascending, order] = at::sort(logits, /*dim=*/-1);
  at::Tensor drop = at::softmax(ascending, -1).cumsum(-1) <= 1 - probability;
  drop.narrow(-1, drop.size(-1) - 1, 1).fill_(false);
  return logits.masked_fill(drop.scatter(-1, order, drop), kNever);
}

// One number in [0, 1) per row.
at::Tensor draws(int64_t rows, uint64_t seed, int64_t step) {
  std::vector<double> values(static_cast<size_t>(rows));
  const RandomKey key{.seed = seed, .name = "tokens", .call = static_cast<uint64_t>(step)};
  Sampler(key, Uniform{}).fill(0, std::span(values));
  return at::from_blob(values.data(), {rows, 1}, at::kDouble).clone();
}

}  // namespace

void check(const SamplingOptions& options) {
  constexpr double kLeast = 1e-6;  // Logits divided by less are infinite.
  TSR_CHECK(options.temperature == 0 ||
                (options.temperature >= kLeast && std::isfinite(options.temperature)),
            "a temperature of ", options.temperature,
            " is not possible; give 0 for the most likely token, or ", kLeast, " or more");
  TSR_CHECK(options.top_k >= 0, "top_k is ", options.top_k, "; give 0 for all tokens, or more");
  TSR_CHECK(options.top_p > 0 && options.top_p <= 1, "top_p is ", options.top_p,
            "; give more than 0, and at most 1 for all tokens");
}

at::Tensor sampled_logits(const at::Tensor& logits, const SamplingOptions& options) {
  at::Tensor left = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
  if (options.temperature != 1) left = left / options.temperature;
  if (options.top_k > 0) left = keep_top_k(left, options.top_k);
  return options.top_p < 1 ? keep_top_p(left, options.top_p) : left;
}

at::Tensor next_tokens(const at::Tensor& logits, const SamplingOptions& options, int64_t step) {
  if (!at::isfinite(logits).all().item<bool>()) {
    throw DataError(
        "the model's logits are not finite: its training has diverged, or the dtype is too narrow; "
        "try --dtype fp32, or an earlier checkpoint");
  }
  if (options.temperature == 0) return at::argmax(logits, -1);
  // In double on the CPU, so that every device draws the same tokens.
  const at::Tensor left = sampled_logits(logits.cpu(), options).to(at::kDouble);
  const at::Tensor reached = at::softmax(left, -1).cumsum(-1);
  const at::Tensor total = reached.narrow(-1, reached.size(-1) - 1, 1);
  const at::Tensor drawn = draws(logits.size(0), options.seed, step) * total;
  return at::searchsorted(reached, drawn, /*out_int32=*/false, /*right=*/true)
      .squeeze(-1)
      .to(logits.device());
}

}  // namespace tessera
