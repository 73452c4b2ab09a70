#include "tessera/parallel/recompute/recompute.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <mutex>
#include <utility>

namespace tessera {
namespace {

namespace autograd = torch::autograd;
using Forward = std::function<at::Tensor(const at::Tensor&)>;

/// The state of the default random generator of a device.
class RandomState {
 public:
  explicit RandomState(const at::Device& device)
      : generator_(at::globalContext().defaultGenerator(device)) {}

  at::Tensor get() {
    const std::lock_guard lock(generator_.mutex());
    return generator_.get_state();
  }
  void set(const at::Tensor& state) {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state);
  }

 private:
  at::Generator generator_;
};

// What a forward pass leaves for its backward pass.
struct Kept : torch::CustomClassHolder {
  explicit Kept(Forward given) : forward(std::move(given)) {}
  Forward forward;
  at::Tensor random_state = {};
};

struct Recompute : autograd::Function<Recompute> {
  // `anchor` asks for a gradient, so that the output does even if the input does not.
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& /*anchor*/, const c10::intrusive_ptr<Kept>& kept) {
    kept->random_state = RandomState(x.device()).get();
    context->save_for_backward({x});
    context->saved_data["wants_input_gradient"] = x.requires_grad();
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    return kept->forward(x);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const auto holder = context->saved_data["kept"].toCapsule();
    const auto& kept = static_cast<const Kept&>(*holder);
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(
        context->saved_data["wants_input_gradient"].toBool());
    RandomState random(x.device());
    const at::Tensor now = random.get();
    random.set(kept.random_state);
    at::Tensor y;
    {
      const at::AutoGradMode with_gradients(true);
      y = kept.forward(x);
    }
    random.set(now);
    autograd::backward({y}, {gradients[0]});
    return {x.grad(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Unit recompute(Unit unit) {
  unit.forward = [inner = std::move(unit.forward)](const at::Tensor& x, const Pass& pass) {
    if (!at::GradMode::is_enabled()) return inner(x, pass);
    const Forward again = [inner, pass](const at::Tensor& input) { return inner(input, pass); };
    return Recompute::apply(x, at::empty({0}).requires_grad_(), c10::make_intrusive<Kept>(again));
  };
  return unit;
}

}  // namespace tessera
