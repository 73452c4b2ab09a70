#include "tessera/parallel/tensor/head_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/parallel/tensor/column_linear.h"
#include "tessera/parallel/tensor/internal/layer_call.h"

namespace tessera {

using namespace tensor::detail;

namespace {

namespace autograd = torch::autograd;

/// A head and its targets, for any positions of x.
struct Head {
  at::Tensor targets;
  VocabularyRows vocabulary;
  Pass pass;
  VocabularyLossOptions options;

  /// The ranks whose positions column_linear() gathers.
  int64_t gathered() const {
    const TensorParallel* const tensor = active(pass);
    return tensor != nullptr && tensor->sequence ? tensor->group.size() : 1;
  }
  /// The targets of these positions of x, on all ranks whose positions are gathered.
  at::Tensor targets_of(const Span& positions) const {
    const int64_t parts = gathered();
    return targets.view({targets.size(0), parts, targets.size(1) / parts})
        .narrow(2, positions.begin, positions.size())
        .flatten(1, 2);
  }
  at::Tensor loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& own) const {
    return vocabulary_loss(column_linear(x, weight, {}, pass), own, vocabulary, pass, options);
  }
};

/// A sum of losses and its gradients.
struct LossSum {
  at::Tensor sum = {};
  at::Tensor of_x = {};
  at::Tensor of_weight = {};
};

struct HeadCall : torch::CustomClassHolder {
  HeadCall(Head head, int64_t pieces) : head(std::move(head)), pieces(pieces) {}
  Head head;
  int64_t pieces;
};

// Sums, unlike means, have gradients that bfloat16 holds well for any number of positions.
LossSum sum_in_pieces(const at::Tensor& x, const at::Tensor& weight, const HeadCall& call,
                      bool learns) {
  const at::AutoGradMode mode(learns);
  const at::Tensor all = weight.detach().requires_grad_(learns);
  LossSum made{.of_x = learns ? at::empty_like(x, at::MemoryFormat::Contiguous) : at::Tensor()};
  const int64_t positions = x.size(kPositions);
  const int64_t size = (positions + call.pieces - 1) / call.pieces;
  for (int64_t begin = 0; begin < positions; begin += size) {
    const Span piece{begin, std::min(begin + size, positions)};
    const at::Tensor own =
        x.detach().narrow(kPositions, piece.begin, piece.size()).requires_grad_(learns);
    const at::Tensor targets = call.head.targets_of(piece);
    const at::Tensor loss = call.head.loss(own, all, targets);
    const at::Tensor sum = loss.detach() * targets.numel();
    made.sum = made.sum.defined() ? made.sum + sum : sum;
    if (!learns) continue;
    autograd::backward({loss}, {at::full_like(loss.detach(), targets.numel())});
    made.of_x.narrow(kPositions, piece.begin, piece.size()).copy_(own.grad());
  }
  made.of_weight = all.grad();
  return made;
}

class HeadLoss : public autograd::Function<HeadLoss> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const c10::intrusive_ptr<HeadCall>& call) {
    const LossSum made = sum_in_pieces(x, weight, *call, /*learns=*/true);
    context->save_for_backward({made.of_x, made.of_weight});
    context->saved_data["count"] = call->head.targets.numel();
    return made.sum / call->head.targets.numel();
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor scale = gradients[0] / context->saved_data["count"].toInt();
    autograd::variable_list made(3);
    for (size_t i = 0; i < saved.size(); ++i) {
      if (context->needs_input_grad(i)) made[i] = saved[i] * scale;
    }
    return made;
  }
};

// The same number on all ranks, since the first has the most rows of the vocabulary.
int64_t pieces_of(const at::Tensor& x, const at::Tensor& targets, const VocabularyRows& vocabulary,
                  const Pass& pass, int64_t piece_bytes) {
  if (x.scalar_type() == at::kHalf) return 1;
  const TensorParallel* const tensor = active(pass);
  const int64_t ranks = tensor == nullptr ? 1 : tensor->group.size();
  const int64_t rows = (vocabulary.vocab_size + ranks - 1) / ranks;
  const int64_t bytes = targets.numel() * rows * static_cast<int64_t>(x.element_size());
  return std::clamp<int64_t>((bytes + piece_bytes - 1) / piece_bytes, 1, x.size(kPositions));
}

}  // namespace

at::Tensor head_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                     const VocabularyRows& vocabulary, const Pass& pass,
                     const HeadLossOptions& options) {
  check_input(x);
  const int64_t pieces = pieces_of(x, targets, vocabulary, pass, options.piece_bytes);
  if (pieces == 1) {
    return Head{targets, vocabulary, pass, options.loss}.loss(x, weight, targets);
  }
  TSR_CHECK(options.loss.count_ignored || !options.loss.ignore_index,
            "a loss in pieces counts ignored positions; set count_ignored");
  const Head head{targets,
                  vocabulary,
                  {.adds_gradients = true, .fp8 = pass.fp8, .tensor = pass.tensor},
                  options.loss};
  const auto call = c10::make_intrusive<HeadCall>(head, pieces);
  const bool learns = at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
  if (learns) return HeadLoss::apply(x, weight, call);
  return sum_in_pieces(x, weight, *call, /*learns=*/false).sum / targets.numel();
}

}  // namespace tessera
