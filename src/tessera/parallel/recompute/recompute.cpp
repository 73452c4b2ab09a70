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
using Forward = std::function<at::Tensor(const at::Tensor&, KeptResults&, bool second_run)>;

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

// What a forward pass leaves for its backward pass, in addition to tensors.
struct Kept : torch::CustomClassHolder {
  explicit Kept(Forward given) : forward(std::move(given)) {}
  Forward forward;
  KeptResults results = {};
  at::Tensor random_state = {};
};

struct RecomputedUnit : autograd::Function<RecomputedUnit> {
  // `anchor` asks for a gradient, so that the output does even if the input does not.
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& /*anchor*/, const c10::intrusive_ptr<Kept>& kept) {
    kept->random_state = RandomState(x.device()).get();
    context->saved_data["wants_input_gradient"] = x.requires_grad();
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    const at::Tensor y = kept->forward(x, kept->results, /*second_run=*/false);
    // The results as saved variables, so that the engine frees them after the backward pass.
    autograd::variable_list saved = kept->results.take(y);
    saved.push_back(x);
    context->save_for_backward(std::move(saved));
    return y;
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const auto holder = context->saved_data["kept"].toCapsule();
    auto& kept = static_cast<Kept&>(*holder);
    autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor x =
        saved.back().detach().requires_grad_(context->saved_data["wants_input_gradient"].toBool());
    saved.pop_back();
    kept.results.begin_second_run(std::move(saved));
    const at::Tensor y = run_again(kept, x);
    // A frozen unit on an input without gradient has none to compute.
    if (y.requires_grad()) autograd::backward({y}, {gradients[0]});
    return {x.grad(), at::Tensor(), at::Tensor()};
  }

 private:
  static at::Tensor run_again(Kept& kept, const at::Tensor& x) {
    RandomState random(x.device());
    const at::Tensor now = random.get();
    random.set(kept.random_state);
    const at::AutoGradMode with_gradients(true);
    const at::Tensor y = kept.forward(x, kept.results, /*second_run=*/true);
    kept.results.end_second_run();
    random.set(now);
    return y;
  }
};

}  // namespace

Unit recompute(Unit unit, Recompute what) {
  if (what == Recompute::kNone) return unit;
  unit.backward_reads = true;  // It runs the forward pass again.
  unit.forward = [inner = std::move(unit.forward), what](const at::Tensor& x, const Pass& pass) {
    if (!at::GradMode::is_enabled()) return inner(x, pass);
    const Forward run = [inner, what, pass](const at::Tensor& input, KeptResults& results,
                                            bool second_run) {
      Pass again = pass;
      again.second_run = second_run;
      again.kept = what == Recompute::kSelective ? &results : nullptr;
      return inner(input, again);
    };
    return RecomputedUnit::apply(x, at::empty({0}).requires_grad_(),
                                 c10::make_intrusive<Kept>(run));
  };
  return unit;
}

}  // namespace tessera
