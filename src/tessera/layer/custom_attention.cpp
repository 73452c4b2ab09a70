#include "tessera/layer/custom_attention.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace tessera {
namespace {

namespace autograd = torch::autograd;

// Autograd can only save its own types, so a holder carries the kernel to the backward pass.
struct KernelHolder : torch::CustomClassHolder {
  explicit KernelHolder(AttentionKernel given) : kernel(std::move(given)) {}
  AttentionKernel kernel;
};

class CustomAttention : public autograd::Function<CustomAttention> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, const AttentionKernel& kernel,
                            KeptResults* kept) {
    const auto compute = [&] { return kernel.forward({q, k, v}); };
    const AttentionKernel::Results results = kept_or_computed(kept, compute);
    autograd::variable_list saved{q, k, v};
    saved.insert(saved.end(), results.begin(), results.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["kernel"] =
        c10::IValue::make_capsule(c10::make_intrusive<KernelHolder>(kernel));
    return results.at(0);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const auto holder = context->saved_data["kernel"].toCapsule();
    const AttentionKernel& kernel = static_cast<const KernelHolder&>(*holder).kernel;
    const autograd::variable_list saved = context->get_saved_variables();
    const AttentionKernel::Results results(saved.begin() + 3, saved.end());
    const auto [q, k, v] = kernel.backward(gradients[0], {saved[0], saved[1], saved[2]}, results);
    return {q, k, v, {}, {}};
  }
};

}  // namespace

at::Tensor custom_attention(const AttentionInputs& inputs, const AttentionKernel& kernel,
                            KeptResults* kept) {
  if (at::GradMode::is_enabled()) {
    return CustomAttention::apply(inputs.q, inputs.k, inputs.v, kernel, kept);
  }
  const auto compute = [&] { return kernel.forward(inputs); };
  return kept_or_computed(kept, compute).at(0);
}

}  // namespace tessera
