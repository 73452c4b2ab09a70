#include "tessera/hook/gradient_hook.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace tessera {
namespace {

namespace autograd = torch::autograd;

struct GradientHook : autograd::PostAccumulateGradHook {
  explicit GradientHook(std::function<void()> given) : callback(std::move(given)) {}
  void operator()(const autograd::Variable& /*parameter*/) override { callback(); }
  std::function<void()> callback;
};

}  // namespace

void set_gradient_hook(const at::Tensor& parameter, std::function<void()> callback) {
  std::unique_ptr<autograd::PostAccumulateGradHook> hook;
  if (callback) hook = std::make_unique<GradientHook>(std::move(callback));
  autograd::impl::set_post_acc_grad_hooks(parameter, std::move(hook));
}

}  // namespace tessera
