#include "tessera/layer/router_balance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "tessera/base/check.h"

namespace tessera {

namespace autograd = torch::autograd;

/// Columns of the table: counts per expert, sums of probabilities per expert, then:
enum Column : int64_t { kSquares, kSequenceLoss, kSequences, kColumns };

struct RouterBalance::Step {
  BalanceOptions options;
  SequenceRanks sharers = {};
  double scale = 1;
  at::Tensor table = {};   // [layers, 2·experts + kColumns]
  at::Tensor slopes = {};  // Once closed: of the loss by a token's probabilities, per layer.
  double tokens = 0;       // Once closed: of the whole batch.
  bool is_closed = false;

  at::Tensor counts() const { return table.narrow(1, 0, options.experts); }
  at::Tensor sums() const { return table.narrow(1, options.experts, options.experts); }
  at::Tensor column(Column which) const { return table.select(1, 2 * options.experts + which); }

  /// The slopes of each sequence by its own counts, [batch, 1, experts], times the number of
  /// sequences; undefined for other kinds. Sums over `sharers`.
  at::Tensor sequence_slopes(const Routing& routing) const;
  void count(const Routing& routing, const at::Tensor& logits, int64_t layer,
             const at::Tensor& of_sequences) const;
  /// Of the losses by the logits of some tokens.
  at::Tensor gradient(const at::Tensor& logits, int64_t layer,
                      const at::Tensor& of_sequences) const;
};

namespace {

// Tokens per expert, over the dimension of positions: [batch, 1, experts].
at::Tensor sequence_counts(const at::Tensor& experts, const at::Tensor& probabilities) {
  const at::Tensor flat = experts.flatten(1);
  const at::Tensor zero =
      at::zeros({flat.size(0), probabilities.size(-1)}, probabilities.options());
  return zero.scatter_add(1, flat, at::ones_like(flat, probabilities.scalar_type())).unsqueeze(1);
}

// The gradient of Σ slopes·probabilities by the logits.
at::Tensor through_scores(const at::Tensor& logits, const at::Tensor& slopes, RouterScore score) {
  if (score == RouterScore::kSoftmax) {
    const at::Tensor p = at::softmax(logits, -1);
    return p * (slopes - (p * slopes).sum(-1, /*keepdim=*/true));
  }
  const at::Tensor s = at::sigmoid(logits);
  const at::Tensor total = s.sum(-1, /*keepdim=*/true);
  const at::Tensor mean = (s * slopes).sum(-1, /*keepdim=*/true) / total;
  return s * (1 - s) / total * (slopes - mean);
}

/// Autograd can only save its own types.
struct Gradient : torch::CustomClassHolder {
  explicit Gradient(std::function<at::Tensor(const at::Tensor& logits)> given)
      : of_logits(std::move(given)) {}
  std::function<at::Tensor(const at::Tensor& logits)> of_logits;
};

// Returns the weights; the logits get a further gradient.
struct Joined : autograd::Function<Joined> {
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& weights,
                            const at::Tensor& logits,
                            const c10::intrusive_ptr<Gradient>& gradient) {
    context->save_for_backward({logits});
    context->saved_data["gradient"] = c10::IValue::make_capsule(gradient);
    return weights.view_as(weights);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const at::Tensor logits = context->get_saved_variables()[0];
    const auto holder = context->saved_data["gradient"].toCapsule();
    return {gradients[0], static_cast<const Gradient&>(*holder).of_logits(logits), {}};
  }
};

}  // namespace

RouterBalance::RouterBalance(const BalanceOptions& options, SequenceRanks sharers)
    : options_(options), sharers_(std::move(sharers)) {}

void RouterBalance::begin(double scale, at::Device device) {
  const at::TensorOptions options = at::device(device).dtype(at::kDouble);
  step_ = std::make_shared<Step>(
      Step{.options = options_,
           .sharers = sharers_,
           .scale = scale,
           .table = at::zeros({options_.layers, 2 * options_.experts + kColumns}, options)});
}

void RouterBalance::close(const RankSum& sum) {
  if (step_ == nullptr || step_->is_closed) return;
  const at::NoGradGuard no_grad;
  Step& step = *step_;
  const auto& [layers, experts, top_k, kind, coefficient, z, score] = options_;
  if (sum) sum(step.table);
  step.is_closed = true;
  const at::Tensor counts = step.counts();
  step.tokens = counts.sum().item<double>() / static_cast<double>(top_k * layers);
  const double n = step.tokens * static_cast<double>(kind == BalanceKind::kModel ? layers : top_k);
  const double factor = coefficient * step.scale * static_cast<double>(experts);
  if (kind == BalanceKind::kModel) {
    step.slopes = (counts.sum(0, /*keepdim=*/true) * (factor / (n * n))).expand_as(counts);
  } else {
    step.slopes = counts * (factor / (n * step.tokens));
  }
}

BalanceResult RouterBalance::end() {
  TSR_ASSERT(step_ != nullptr && step_->is_closed, "the balance of a step that is not closed");
  const std::shared_ptr<Step> step = std::exchange(step_, nullptr);
  const auto layers = static_cast<double>(options_.layers);
  const auto experts = static_cast<double>(options_.experts);
  const auto top_k = static_cast<double>(options_.top_k);
  BalanceResult result{.z_loss = step->column(kSquares).sum().item<double>() / step->tokens,
                       .counts = step->counts()};
  const at::Tensor sums = step->sums();
  if (options_.kind == BalanceKind::kModel) {
    const at::Tensor product = (result.counts.sum(0) * sums.sum(0)).sum();
    result.loss =
        product.item<double>() * experts / (step->tokens * step->tokens * layers * layers);
  } else if (options_.kind == BalanceKind::kLayer) {
    result.loss = (result.counts * sums).sum().item<double>() * experts /
                  (top_k * step->tokens * step->tokens);
  } else {
    result.loss = (step->column(kSequenceLoss) / step->column(kSequences)).sum().item<double>();
  }
  return result;
}

at::Tensor RouterBalance::Step::sequence_slopes(const Routing& routing) const {
  if (options.kind != BalanceKind::kSequence) return {};
  const at::Tensor counts = sequence_counts(routing.experts, routing.probabilities);
  if (sharers.sum) sharers.sum(counts);
  const auto top_k = static_cast<double>(options.top_k);
  const at::Tensor positions = counts.sum(-1, /*keepdim=*/true) / top_k;
  return counts / positions.square() * (static_cast<double>(options.experts) / top_k);
}

void RouterBalance::Step::count(const Routing& routing, const at::Tensor& logits, int64_t layer,
                                const at::Tensor& of_sequences) const {
  const at::NoGradGuard no_grad;
  const at::Tensor& p = routing.probabilities;
  const at::Tensor chosen = routing.experts.flatten();
  counts()[layer].scatter_add_(0, chosen, at::ones_like(chosen, at::kDouble));
  sums()[layer].add_(p.flatten(0, -2).sum(0, /*keepdim=*/false, at::kDouble));
  if (options.z_coefficient > 0) {
    const at::Tensor wide = logits.detach().to(p.scalar_type());
    column(kSquares)[layer].add_(at::logsumexp(wide, -1).square().sum());
  }
  if (!of_sequences.defined()) return;
  column(kSequenceLoss)[layer].add_((of_sequences * p).sum());
  // Its ranks count a sequence together.
  column(kSequences)[layer].add_(static_cast<double>(logits.size(0)) /
                                 static_cast<double>(sharers.count));
}

at::Tensor RouterBalance::Step::gradient(const at::Tensor& logits, int64_t layer,
                                         const at::Tensor& of_sequences) const {
  if (!is_closed) {
    throw StateError(
        "a router's balancing loss needs the counts of the whole batch; call close() before the "
        "backward pass");
  }
  const at::Tensor wide = logits.element_size() < 4 ? logits.to(at::kFloat) : logits;
  at::Tensor by_probability = slopes[layer].to(wide.scalar_type());
  if (of_sequences.defined()) {
    const double sequences = column(kSequences)[layer].item<double>();
    by_probability = of_sequences * (options.coefficient * scale / sequences);
  }
  const at::Tensor result = through_scores(wide, by_probability, options.score);
  if (options.z_coefficient > 0) {
    const double factor = 2 * options.z_coefficient * scale / tokens;
    result.addcmul_(at::logsumexp(wide, -1, /*keepdim=*/true), at::softmax(wide, -1), factor);
  }
  return result.to(logits.scalar_type());
}

at::Tensor RouterBalance::join(const Routing& routing, const at::Tensor& logits, int64_t layer,
                               bool counts) {
  if (step_ == nullptr) return routing.weights;
  const at::Tensor of_sequences = step_->sequence_slopes(routing);
  if (counts && !step_->is_closed) step_->count(routing, logits, layer, of_sequences);
  if (!has_loss() || !at::GradMode::is_enabled()) return routing.weights;
  const auto gradient = [step = step_, layer, of_sequences](const at::Tensor& saved) {
    return step->gradient(saved, layer, of_sequences);
  };
  return Joined::apply(routing.weights, logits, c10::make_intrusive<Gradient>(gradient));
}

}  // namespace tessera
