#include "tessera/layer/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "tessera/layer/internal/fused_attention.h"

namespace tessera {

using namespace layer::detail;

namespace {

namespace autograd = torch::autograd;

at::Tensor attention(const AttentionInputs& in) {
  const bool grouped = in.q.size(1) != in.k.size(1);
  return at::scaled_dot_product_attention(in.q, in.k, in.v, /*attn_mask=*/std::nullopt,
                                          /*dropout_p=*/0, /*is_causal=*/true,
                                          /*scale=*/std::nullopt, grouped);
}

// Attention whose results are kept from another run.
class KeptAttention : public autograd::Function<KeptAttention> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v,
                            const KeptResults::Results* kept) {
    autograd::variable_list saved{q, k, v};
    saved.insert(saved.end(), kept->begin(), kept->end());
    context->save_for_backward(std::move(saved));
    return kept->at(0);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const autograd::variable_list saved = context->get_saved_variables();
    const AttentionInputs inputs{saved[0], saved[1], saved[2]};
    const KeptResults::Results kept(saved.begin() + 3, saved.end());
    const auto [q, k, v] = fused_attention_for(inputs)->backward(gradients[0], inputs, kept);
    return {q, k, v, {}};
  }
};

at::Tensor kept_attention(const AttentionInputs& in, KeptResults& store) {
  const FusedAttention* const fused = fused_attention_for(in);
  if (fused == nullptr) return attention(in);  // Both runs compute it.
  const KeptResults::Results kept = store.results([&] { return fused->forward(in); });
  return at::GradMode::is_enabled() ? KeptAttention::apply(in.q, in.k, in.v, &kept) : kept.at(0);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const Pass& pass) {
  const AttentionInputs in{queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)};
  const at::Tensor mixed = pass.kept == nullptr ? attention(in) : kept_attention(in, *pass.kept);
  return mixed.transpose(1, 2);
}

}  // namespace tessera
