#include "tessera/parallel/tensor/vocabulary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
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

/// Sums over the whole vocabulary, per position, of logits relative to the largest.
struct LogitSums {
  at::Tensor exps;        // This rank's exponentials, [positions, rows].
  at::Tensor sum;         // Of all exponentials.
  at::Tensor picked;      // The target's logit.
  at::Tensor total = {};  // Of all logits, if labels are smoothed.
};

at::Tensor largest_logits(const at::Tensor& logits, const Group& group) {
  const at::Tensor largest =
      logits.size(1) == 0
          ? at::full({logits.size(0)}, -std::numeric_limits<double>::infinity(), logits.options())
          : logits.amax(1);
  return all_reduce(largest, group, ReduceOp::kMax).wait();
}

at::Tensor picked_logits(const at::Tensor& logits, const at::Tensor& targets, const Span& rows) {
  if (rows.size() == 0) return at::zeros({logits.size(0)}, logits.options());
  const at::Tensor foreign = foreign_to(targets, rows);
  const at::Tensor own = (targets - rows.begin).masked_fill_(foreign, 0);
  return logits.gather(1, own.unsqueeze(1)).squeeze(1).masked_fill_(foreign, 0);
}

LogitSums logit_sums(const at::Tensor& logits, const at::Tensor& targets, const LossCall& call) {
  at::Tensor relative = logits - largest_logits(logits, call.group).unsqueeze(1);
  const at::Tensor picked = picked_logits(relative, targets, call.vocabulary.rows);
  const bool smooths = call.options.label_smoothing > 0;
  const at::Tensor total = smooths ? relative.sum(1) : at::Tensor();
  const at::Tensor exps = relative.exp_();
  std::vector<at::Tensor> sums{exps.sum(1), picked};
  if (smooths) sums.push_back(total);
  const at::Tensor all = all_reduce(at::stack(sums), call.group).wait();
  return {exps, all[0], all[1], smooths ? all[2] : at::Tensor()};
}

class VocabularyLoss : public autograd::Function<VocabularyLoss> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, const c10::intrusive_ptr<LossCall>& call) {
    const at::Tensor flat = targets.flatten();
    const LogitSums sums = logit_sums(at_least_float(logits).flatten(0, 1), flat, *call);
    at::Tensor losses = sums.sum.log() - (1 - call->options.label_smoothing) * sums.picked;
    if (sums.total.defined()) losses -= call->smoothing_share() * sums.total;
    const at::Tensor ignored = call->ignored(flat);
    if (ignored.defined()) losses.masked_fill_(ignored, 0);
    const bool counts_all = !ignored.defined() || call->options.count_ignored;
    const at::Tensor count =
        counts_all ? at::full({}, flat.numel(), flat.options()) : ignored.logical_not().sum();
    context->save_for_backward({sums.exps, sums.sum, flat, count});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->saved_data["shape"] = logits.sizes();
    context->saved_data["dtype"] = static_cast<int64_t>(logits.scalar_type());
    return losses.sum() / count;
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const auto holder = context->saved_data["call"].toCapsule();
    const auto& call = static_cast<const LossCall&>(*holder);
    const autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& targets = saved[2];
    // The gradient of each position's loss.
    at::Tensor each = (gradients[0] / saved[3]).expand(targets.sizes());
    const at::Tensor ignored = call.ignored(targets);
    if (ignored.defined()) each = each.masked_fill(ignored, 0);
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
    return VocabularyLoss::apply(logits, targets,
                                 c10::make_intrusive<LossCall>(tensor->group, vocabulary, options));
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
