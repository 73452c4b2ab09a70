#include "tessera/layer/swiglu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/kernel/gpu_kernel.h"
#include "tessera/kernel/swiglu.h"

namespace tessera {
namespace {

namespace autograd = torch::autograd;

class SwiGluOnGpu : public autograd::Function<SwiGluOnGpu> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return swiglu_on_gpu(rows_of(gate), rows_of(up)).view(gate.sizes());
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const autograd::variable_list saved = context->get_saved_variables();
    const int64_t size = saved[0].size(-1);
    const at::Tensor both =
        swiglu_backward_on_gpu(rows_of(gradients[0]), rows_of(saved[0]), rows_of(saved[1]));
    const auto part = [&](int64_t which) {
      return both.narrow(1, which * size, size).view(saved[0].sizes());
    };
    return {part(0), part(1)};
  }

 private:
  // The elements of a row are neighbours; rows may lie apart.
  static at::Tensor rows_of(const at::Tensor& x) {
    const at::Tensor rows = x.reshape({-1, x.size(-1)});
    return rows.stride(1) == 1 ? rows : rows.contiguous();
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const bool fits =
      has_kernels(gate) && gate.numel() > 0 && is_alike(gate, up) && up.sizes() == gate.sizes();
  return fits ? SwiGluOnGpu::apply(gate, up) : at::silu(gate) * up;
}

}  // namespace tessera
