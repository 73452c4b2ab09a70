#include "tessera/parallel/tensor/vocabulary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/kernel/cross_entropy.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/layer/gradient_place.h"
#include "tessera/layer/tokens.h"
#include "tessera/parallel/tensor/internal/layer_call.h"
#include "tessera/parallel/tensor/sequence.h"

namespace tessera {

using namespace tensor::detail;

namespace {

namespace autograd = torch::autograd;

void check_rows(int64_t size, const VocabularyRows& vocabulary, const char* what) {
  const Span& rows = vocabulary.rows;
  TSR_CHECK(0 <= rows.begin && rows.begin <= rows.end && rows.end <= vocabulary.vocab_size, "rows ",
            rows.begin, " to ", rows.end, " are not in a vocabulary of ", vocabulary.vocab_size);
  TSR_CHECK(size == rows.size(), what, " of ", size, " rows of the vocabulary cannot be rows ",
            rows.begin, " to ", rows.end);
}

at::Tensor foreign_to(const at::Tensor& tokens, const Span& rows) {
  return (tokens < rows.begin) | (tokens >= rows.end);
}

// The embeddings of this rank's tokens, zeros for all others.
at::Tensor own_embeddings(const at::Tensor& tokens, const at::Tensor& weight, const Span& rows) {
  if (rows.size() == 0) {
    // Depends on the weight, so that it gets a gradient as on other ranks.
    return weight.sum() + at::zeros({tokens.size(0), tokens.size(1), weight.size(1)},
                                    weight.options().requires_grad(false));
  }
  const at::Tensor foreign = foreign_to(tokens, rows);
  const at::Tensor own = (tokens - rows.begin).masked_fill_(foreign, 0);
  return at::embedding(weight, own).masked_fill_(foreign.unsqueeze(-1), 0);
}

at::Tensor at_least_float(const at::Tensor& logits) {
  return logits.element_size() < 4 ? logits.to(at::kFloat) : logits;
}

/// What both passes of the loss need, in addition to saved tensors.
struct LossCall : torch::CustomClassHolder {
  LossCall(const Group& group, const VocabularyRows& vocabulary,
           const VocabularyLossOptions& options)
      : group(group), vocabulary(vocabulary), options(options) {}

  /// Where the loss is not counted; undefined if it is everywhere.
  at::Tensor ignored(const at::Tensor& targets) const {
    return options.ignore_index ? targets == *options.ignore_index : at::Tensor();
  }
  /// The share of each logit in the target distribution, apart from the target's own.
  double smoothing_share() const {
    return options.label_smoothing / static_cast<double>(vocabulary.vocab_size);
  }

  Group group;
  VocabularyRows vocabulary;
  VocabularyLossOptions options;
};

/// Sums over the whole vocabulary, per position, of logits relative to one that is about the
/// largest: any number will do, if it is the same on all ranks and no exponential overflows.
struct LogitSums {
  at::Tensor sum;         // Of all exponentials.
  at::Tensor picked;      // The target's logit.
  at::Tensor total = {};  // Of all logits, if labels are smoothed.
};

at::Tensor least(const at::Tensor& logits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return at::full({logits.size(0)}, -kInfinity, at_least_float(logits).options());
}

at::Tensor largest_of_ranks(const at::Tensor& own, const Group& group) {
  return all_reduce(own, group, ReduceOp::kMax).wait();
}

at::Tensor picked_logits(const at::Tensor& logits, const at::Tensor& largest,
                         const at::Tensor& targets, const Span& rows) {
  if (rows.size() == 0) return at::zeros_like(largest);
  const at::Tensor foreign = foreign_to(targets, rows);
  const at::Tensor own = (targets - rows.begin).masked_fill_(foreign, 0);
  const at::Tensor picked = at_least_float(logits.gather(1, own.unsqueeze(1)).squeeze(1));
  return (picked - largest).masked_fill_(foreign, 0);
}

LogitSums sums_of_ranks(const LogitSums& own, const Group& group) {
  std::vector<at::Tensor> sums{own.sum, own.picked};
  if (own.total.defined()) sums.push_back(own.total);
  const at::Tensor all = all_reduce(at::stack(sums), group).wait();
  return {all[0], all[1], own.total.defined() ? all[2] : at::Tensor()};
}

/// The mean of the losses, and of how many.
struct MeanLoss {
  at::Tensor loss;
  at::Tensor count;
};

MeanLoss mean_loss(const LogitSums& sums, const at::Tensor& targets, const LossCall& call) {
  at::Tensor losses = sums.sum.log() - (1 - call.options.label_smoothing) * sums.picked;
  if (sums.total.defined()) losses -= call.smoothing_share() * sums.total;
  const at::Tensor ignored = call.ignored(targets);
  if (ignored.defined()) losses.masked_fill_(ignored, 0);
  const bool counts_all = !ignored.defined() || call.options.count_ignored;
  const at::Tensor count =
      counts_all ? at::full({}, targets.numel(), targets.options()) : ignored.logical_not().sum();
  return {losses.sum() / count, count};
}

// The gradients of the losses.
at::Tensor gradient_of_each(const at::Tensor& gradient, const at::Tensor& count,
                            const at::Tensor& targets, const LossCall& call) {
  const at::Tensor each = (gradient / count).expand(targets.sizes());
  const at::Tensor ignored = call.ignored(targets);
  return ignored.defined() ? each.masked_fill(ignored, 0) : each;
}

const LossCall& call_of(autograd::AutogradContext& context) {
  return static_cast<const LossCall&>(*context.saved_data["call"].toCapsule());
}

class VocabularyLoss : public autograd::Function<VocabularyLoss> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, const c10::intrusive_ptr<LossCall>& call) {
    const at::Tensor flat = targets.flatten();
    const at::Tensor rows = at_least_float(logits).flatten(0, 1);
    const at::Tensor own = rows.size(1) == 0 ? least(rows) : rows.amax(1);
    const at::Tensor largest = largest_of_ranks(own, call->group);
    at::Tensor relative = rows - largest.unsqueeze(1);
    const bool smooths = call->options.label_smoothing > 0;
    const at::Tensor total = smooths ? relative.sum(1) : at::Tensor();
    const at::Tensor exps = relative.exp_();
    const LogitSums sums = sums_of_ranks(
        {exps.sum(1), picked_logits(rows, largest, flat, call->vocabulary.rows), total},
        call->group);
    const MeanLoss made = mean_loss(sums, flat, *call);
    context->save_for_backward({exps, sums.sum, flat, made.count});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->saved_data["shape"] = logits.sizes();
    context->saved_data["dtype"] = static_cast<int64_t>(logits.scalar_type());
    return made.loss;
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const LossCall& call = call_of(*context);
    const autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& targets = saved[2];
    const at::Tensor each = gradient_of_each(gradients[0], saved[3], targets, call);
    at::Tensor made = saved[0] * (each / saved[1]).unsqueeze(1);
    subtract_targets(made, each, targets, call);
    const auto dtype = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    return {made.to(dtype).view(context->saved_data["shape"].toIntVector()), {}, {}};
  }

 private:
  static void subtract_targets(at::Tensor& made, const at::Tensor& each, const at::Tensor& targets,
                               const LossCall& call) {
    const Span& rows = call.vocabulary.rows;
    if (rows.size() == 0) return;
    if (call.options.label_smoothing > 0) made -= (each * call.smoothing_share()).unsqueeze(1);
    const at::Tensor foreign = foreign_to(targets, rows);
    const at::Tensor own = (targets - rows.begin).masked_fill_(foreign, 0);
    const at::Tensor shares = (each * (call.options.label_smoothing - 1)).masked_fill_(foreign, 0);
    made.scatter_add_(1, own.unsqueeze(1), shares.unsqueeze(1));
  }
};

// The same by kernels: logits stay in their dtype, and their gradient may take their place.
class VocabularyLossByKernels : public autograd::Function<VocabularyLossByKernels> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, const c10::intrusive_ptr<LossCall>& call) {
    const at::Tensor rows = keep_rows(*context, logits);
    const at::Tensor flat = targets.flatten();
    const at::Tensor own = flat - call->vocabulary.rows.begin;
    const at::Tensor log_sums =
        rows.numel() == 0 ? least(rows) : cross_entropy_on_gpu(rows, own, kNone).log_sums;
    const at::Tensor largest = largest_of_ranks(log_sums.clone(), call->group);
    const at::Tensor picked = picked_logits(rows, largest, flat, call->vocabulary.rows);
    const LogitSums sums = sums_of_ranks({(log_sums - largest).exp(), picked}, call->group);
    const MeanLoss made = mean_loss(sums, flat, *call);
    context->saved_data["own"] = own;
    context->saved_data["log_sums"] = sums.sum.log() + largest;
    context->saved_data["targets"] = flat;
    context->saved_data["count"] = made.count;
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->saved_data["shape"] = logits.sizes();
    return made.loss;
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    auto& saved = context->saved_data;
    const auto [rows, out] = take_rows(*context);
    const at::Tensor each = gradient_of_each(gradients[0], saved["count"].toTensor(),
                                             saved["targets"].toTensor(), call_of(*context));
    if (rows.numel() > 0) {
      cross_entropy_backward_on_gpu(each.contiguous(), rows, saved["own"].toTensor(),
                                    saved["log_sums"].toTensor(), kNone, out);
    }
    return {out.view(saved["shape"].toIntVector()), {}, {}};
  }

 private:
  // No target is ignored here: gradient_of_each() has zeros for those.
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
};

void check_targets(const at::Tensor& logits, const at::Tensor& targets,
                   const VocabularyRows& vocabulary, const VocabularyLossOptions& options) {
  const at::Tensor counted =
      options.ignore_index ? targets.masked_fill(targets == *options.ignore_index, 0) : targets;
  check_tokens(counted, vocabulary.vocab_size);
  TSR_CHECK(logits.sizes().slice(0, 2) == targets.sizes(), "logits of shape ", logits.sizes(),
            " do not match targets of shape ", targets.sizes());
  TSR_CHECK(0 <= options.label_smoothing && options.label_smoothing <= 1,
            "label smoothing must be from 0 to 1, but is ", options.label_smoothing);
  check_rows(logits.size(-1), vocabulary, "logits");
}

}  // namespace

VocabularyRows vocabulary_rows(int64_t vocab_size, const Pass& pass) {
  if (pass.tensor == nullptr) return {.rows = {0, vocab_size}, .vocab_size = vocab_size};
  const Group& group = pass.tensor->group;
  return {.rows = chunk(vocab_size, group.size(), group.rank().value), .vocab_size = vocab_size};
}

at::Tensor vocabulary_embed(const at::Tensor& tokens, const at::Tensor& weight,
                            const VocabularyRows& vocabulary, const Pass& pass) {
  if (active(pass) == nullptr) return embed(tokens, weight);
  check_tokens(tokens, vocabulary.vocab_size);
  check_rows(weight.size(0), vocabulary, "a weight");
  return leave_parallel(own_embeddings(tokens, weight, vocabulary.rows), pass);
}

at::Tensor vocabulary_loss(const at::Tensor& logits, const at::Tensor& targets,
                           const VocabularyRows& vocabulary, const Pass& pass,
                           const VocabularyLossOptions& options) {
  const TensorParallel* const tensor = active(pass);
  const bool is_plain = !options.ignore_index && options.label_smoothing == 0;
  if (tensor == nullptr && is_plain) return token_loss(logits, targets);
  check_targets(logits, targets, vocabulary, options);
  if (tensor != nullptr) {
    const auto call = c10::make_intrusive<LossCall>(tensor->group, vocabulary, options);
    const bool has_kernel = has_kernels(logits) && options.label_smoothing == 0;
    return has_kernel ? VocabularyLossByKernels::apply(logits, targets, call)
                      : VocabularyLoss::apply(logits, targets, call);
  }
  constexpr int64_t kNoToken = -1;
  const int64_t ignored = options.ignore_index.value_or(kNoToken);
  if (options.label_smoothing == 0 && options.count_ignored) {
    return token_loss_sum(logits, targets, ignored) / targets.numel();
  }
  const at::Tensor loss =
      at::cross_entropy_loss(at_least_float(logits).flatten(0, 1), targets.flatten(), {},
                             options.count_ignored ? at::Reduction::Sum : at::Reduction::Mean,
                             ignored, options.label_smoothing);
  return options.count_ignored ? loss / targets.numel() : loss;
}

}  // namespace tessera
