#include "tessera/layer/tokens.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>

#include "tessera/base/check.h"

namespace tessera {
namespace {

bool is_known(const at::Tensor& tokens, int64_t vocab_size) {
  const auto [smallest, largest] = at::aminmax(tokens);
  return smallest.item<int64_t>() >= 0 && largest.item<int64_t>() < vocab_size;
}

[[noreturn]] void refuse_unknown(const at::Tensor& tokens, int64_t vocab_size) {
  const at::Tensor place = ((tokens < 0) | (tokens >= vocab_size)).nonzero()[0];
  const auto row = place[0].item<int64_t>();
  const auto column = place[1].item<int64_t>();
  throw ConfigError(concat("token id ", tokens[row][column].item<int64_t>(), " at [", row, ", ",
                           column, "] is outside the vocabulary of ", vocab_size,
                           "; ids must be from 0 to ", vocab_size - 1));
}

}  // namespace

void check_tokens(const at::Tensor& tokens, int64_t vocab_size) {
  TSR_CHECK(tokens.dim() == 2 && tokens.scalar_type() == at::kLong && tokens.numel() > 0,
            "tokens have shape ", tokens.sizes(), " and dtype ", tokens.scalar_type(),
            "; pass at least one row of [batch, positions] as int64 (Long)");
  if (tokens.is_cpu() && !is_known(tokens, vocab_size)) refuse_unknown(tokens, vocab_size);
}

at::Tensor embed(const at::Tensor& tokens, const at::Tensor& weight) {
  check_tokens(tokens, weight.size(0));
  return at::embedding(weight, tokens);
}

at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets) {
  check_tokens(targets, logits.size(-1));
  TSR_CHECK(logits.sizes().slice(0, 2) == targets.sizes(), "logits of shape ", logits.sizes(),
            " do not match targets of shape ", targets.sizes());
  const bool narrow = logits.element_size() < 4;
  const at::Tensor rows = (narrow ? logits.to(at::kFloat) : logits).flatten(0, 1);
  return at::cross_entropy_loss(rows, targets.flatten());
}

}  // namespace tessera
