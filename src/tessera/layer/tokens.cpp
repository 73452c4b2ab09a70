#include "tessera/layer/tokens.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/base/check.h"
#include "tessera/kernel/cross_entropy.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/layer/gradient_place.h"

namespace tessera {
namespace {

namespace autograd = torch::autograd;

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

at::Tensor wide_rows(const at::Tensor& logits) {
  const bool narrow = logits.element_size() < 4;
  return (narrow ? logits.to(at::kFloat) : logits).flatten(0, 1);
}

// The loss of each row. Logits stay in their dtype, and their gradient takes their place if nothing
// else can read them any more.
class TokenLosses : public autograd::Function<TokenLosses> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, int64_t ignored) {
    const at::Tensor rows = keep_rows(*context, logits);
    const at::Tensor flat = targets.flatten().contiguous();
    const GpuCrossEntropy made = cross_entropy_on_gpu(rows, flat, ignored);
    context->saved_data["targets"] = flat;
    context->saved_data["log_sums"] = made.log_sums;
    context->saved_data["ignored"] = ignored;
    context->saved_data["shape"] = logits.sizes();
    return made.losses;
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    auto& saved = context->saved_data;
    const auto [rows, out] = take_rows(*context);
    cross_entropy_backward_on_gpu(gradients[0].contiguous(), rows, saved["targets"].toTensor(),
                                  saved["log_sums"].toTensor(), saved["ignored"].toInt(), out);
    return {out.view(saved["shape"].toIntVector()), {}, {}};
  }
};

void check_targets(const at::Tensor& logits, const at::Tensor& targets) {
  TSR_CHECK(logits.dim() == 3 && logits.sizes().slice(0, 2) == targets.sizes(), "logits of shape ",
            logits.sizes(), " do not match targets of shape ", targets.sizes());
  TSR_CHECK(targets.scalar_type() == at::kLong && targets.device() == logits.device(),
            "targets are ", targets.scalar_type(), " on ", targets.device().str(),
            "; convert them to int64 (Long) on ", logits.device().str(),
            ", the device of the logits");
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
  check_targets(logits, targets);
  return at::cross_entropy_loss(wide_rows(logits), targets.flatten());
}

at::Tensor token_loss_sum(const at::Tensor& logits, const at::Tensor& targets, int64_t ignored) {
  check_targets(logits, targets);
  if (has_kernels(logits)) return TokenLosses::apply(logits, targets, ignored).sum();
  return at::cross_entropy_loss(wide_rows(logits), targets.flatten(), {}, at::Reduction::Sum,
                                ignored);
}

}  // namespace tessera
