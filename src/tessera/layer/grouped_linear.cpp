#include "tessera/layer/grouped_linear.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/layer/wanted_gradients.h"

namespace tessera {
namespace {

namespace autograd = torch::autograd;
using Tensors = std::vector<at::Tensor>;

/// Consecutive rows of one expert.
struct Segment {
  size_t expert;
  int64_t begin;
  int64_t size;

  at::Tensor of(const at::Tensor& rows) const { return rows.narrow(0, begin, size); }
};

/// Those of experts that have rows.
std::vector<Segment> segments_of(std::span<const int64_t> counts) {
  std::vector<Segment> segments;
  int64_t begin = 0;
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    if (counts[expert] > 0) segments.push_back({expert, begin, counts[expert]});
    begin += counts[expert];
  }
  return segments;
}

/// What the backward pass needs beside tensors. Autograd can only save its own types.
struct Call : torch::CustomClassHolder {
  std::vector<Segment> segments;
  std::vector<ExpertWeights> layers;  // The parameters themselves.
  std::optional<WeightGradients> deferred;
  bool adds_gradients = false;  // Pass::adds_gradients.
  bool fills = false;           // Whether experts without rows get zeros.
};

// A product of many rows fills all threads by itself; many small ones run beside each other.
void for_each(const std::vector<Segment>& segments, const at::Tensor& rows,
              const std::function<void(const Segment&)>& work) {
  constexpr int64_t kManyRows = 256;
  const auto count = static_cast<int64_t>(segments.size());
  const bool side_by_side =
      rows.is_cpu() && count >= 2L * at::get_num_threads() && rows.size(0) < kManyRows * count;
  const auto run = [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_grad;
    for (int64_t i = begin; i < end; ++i) work(segments[static_cast<size_t>(i)]);
  };
  if (!side_by_side) return run(0, count);
  at::parallel_for(0, count, 1, run);
}

Tensors products(const at::Tensor& rows, const Call& call) {
  Tensors results;
  for (const ExpertWeights& weights : call.layers) {
    results.push_back(at::empty({rows.size(0), weights[0].size(0)}, rows.options()));
  }
  for_each(call.segments, rows, [&](const Segment& segment) {
    for (size_t i = 0; i < call.layers.size(); ++i) {
      at::Tensor out = segment.of(results[i]);
      at::mm_out(out, segment.of(rows), call.layers[i][segment.expert].detach().t());
    }
  });
  return results;
}

Tensors kept_products(const at::Tensor& rows, const Call& call, KeptResults* kept) {
  const auto compute = [&] { return products(rows.detach(), call); };
  return kept_or_computed(kept, compute);
}

/// The rows of a call and the gradients of its results, and from them, segment by segment, the
/// gradients of rows and weights.
struct Backward {
  const Call& call;
  const at::Tensor& rows;
  const Tensors& gradients;
  bool adds = false;  // Whether products may add to existing gradients themselves.

  /// The sum over the layers.
  void add_input(const Segment& segment, const at::Tensor& sum) const {
    at::Tensor out = segment.of(sum);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const at::Tensor weight = call.layers[i][segment.expert].detach();
      if (i == 0) {
        at::mm_out(out, segment.of(gradients[i]), weight);
      } else {
        out.addmm_(segment.of(gradients[i]), weight);
      }
    }
  }

  /// `made` by layer, then by expert.
  void add_weights(const Segment& segment, Tensors& made) const {
    const size_t experts = call.layers[0].size();
    for (size_t i = 0; i < call.layers.size(); ++i) {
      const at::Tensor& weight = call.layers[i][segment.expert];
      if (!weight.requires_grad()) continue;
      const at::Tensor left = segment.of(gradients[i]).t();
      const at::Tensor right = segment.of(rows);
      if (adds && add_product_in_place(weight, left, right)) continue;
      made[i * experts + segment.expert] = at::mm(left, right);
    }
  }

  Tensors no_weights() const { return Tensors(call.layers.size() * call.layers[0].size()); }

  /// Experts without rows have undefined gradients, or zeros, unless there is one to add to.
  void fill(Tensors& made) const {
    const size_t experts = call.layers[0].size();
    for (size_t i = 0; call.fills && i < made.size(); ++i) {
      const at::Tensor& weight = call.layers[i / experts][i % experts];
      const bool added = adds && weight.grad().defined();
      if (!made[i].defined() && !added && weight.requires_grad()) made[i] = at::zeros_like(weight);
    }
  }
};

Tensors weight_gradients(const Backward& backward) {
  Tensors made = backward.no_weights();
  for_each(backward.call.segments, backward.rows,
           [&](const Segment& segment) { backward.add_weights(segment, made); });
  backward.fill(made);
  return made;
}

void accumulate(Tensors gradients, const Call& call) {
  const at::NoGradGuard no_grad;
  const size_t experts = call.layers[0].size();
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    accumulate_gradient(call.layers[i / experts][i % experts], std::move(gradients[i]));
  }
}

class GroupedLinear : public autograd::Function<GroupedLinear> {
 public:
  // `parameters` are those of the call, as autograd's inputs.
  static autograd::variable_list forward(autograd::AutogradContext* context, const at::Tensor& rows,
                                         at::TensorList /*parameters*/,
                                         const c10::intrusive_ptr<Call>& call, KeptResults* kept) {
    context->save_for_backward({rows});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return kept_products(rows, *call, kept);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& given) {
    const auto holder = context->saved_data["call"].toCapsule();
    const auto call = c10::static_intrusive_pointer_cast<Call>(holder);
    const at::Tensor rows = context->get_saved_variables()[0];
    Tensors gradients;
    for (const at::Tensor& gradient : given) gradients.push_back(gradient.contiguous());
    const Backward pass{*call, rows, gradients, call->adds_gradients};
    Tensors of_weights = pass.no_weights();
    autograd::variable_list made(1 + of_weights.size() + 2);
    if (context->needs_input_grad(0)) made[0] = at::empty_like(rows);
    const bool learns_now = !call->deferred && wanted_gradients(*context, 1, of_weights.size()) > 0;
    // One expert after the other, while its rows are in the cache.
    for_each(call->segments, rows, [&](const Segment& segment) {
      if (made[0].defined()) pass.add_input(segment, made[0]);
      if (learns_now) pass.add_weights(segment, of_weights);
    });
    if (call->deferred) {
      call->deferred->add([=] { accumulate(weight_gradients({*call, rows, gradients}), *call); });
    }
    if (learns_now) {
      pass.fill(of_weights);
      std::ranges::copy(of_weights, made.begin() + 1);
    }
    return made;
  }
};

void check(const at::Tensor& rows, std::span<const int64_t> counts,
           std::span<const ExpertWeights> layers) {
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  TSR_CHECK(rows.dim() == 2 && rows.size(0) == sum, "rows of shape ", rows.sizes(), " are not the ",
            sum, " rows of the experts");
  for (const ExpertWeights& weights : layers) {
    TSR_CHECK(weights.size() == counts.size() && !weights.empty(), weights.size(),
              " weights for the rows of ", counts.size(), " experts; give one per expert");
  }
}

}  // namespace

std::vector<at::Tensor> grouped_linear(const at::Tensor& rows, std::span<const int64_t> counts,
                                       std::span<const ExpertWeights> layers, const Pass& pass) {
  check(rows, counts, layers);
  const auto call = c10::make_intrusive<Call>();
  call->segments = segments_of(counts);
  call->layers.assign(layers.begin(), layers.end());
  call->fills = pass.experts != nullptr;
  if (!at::GradMode::is_enabled()) return kept_products(rows, *call, pass.kept);
  Tensors parameters;
  for (const ExpertWeights& weights : layers) {
    for (const at::Tensor& weight : weights) {
      if (pass.deferred != nullptr) check_deferrable(weight);
      parameters.push_back(weight);
    }
  }
  if (pass.deferred != nullptr) call->deferred = *pass.deferred;
  call->adds_gradients = pass.adds_gradients;
  return GroupedLinear::apply(rows, at::TensorList(parameters), call, pass.kept);
}

at::Tensor grouped_linear(const at::Tensor& rows, std::span<const int64_t> counts,
                          const ExpertWeights& weights, const Pass& pass) {
  return grouped_linear(rows, counts, std::span(&weights, 1), pass)[0];
}

}  // namespace tessera
