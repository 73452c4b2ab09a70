#include "tessera/tensor/internal/routes.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/tensor/internal/redistribute_run.h"

namespace tessera::tensor::detail {
namespace {

using Tensors = std::vector<at::Tensor>;
using Routes = std::vector<Route>;

RedistributeRun run_of(const at::Tensor& local, const Route& route) {
  return {local, route.mesh, route.shape,
          redistribute_plan(route.shape, route.mesh.shape(), route.from, route.to)};
}

Route backward_route(const Route& route) {
  return {route.mesh, route.shape, gradient_placements(route.to), gradient_placements(route.from)};
}

// Autograd can only save its own types, so a holder carries the routes to the backward pass.
struct BackwardRoutes : torch::CustomClassHolder {
  explicit BackwardRoutes(Routes given) : routes(std::move(given)) {}
  Routes routes;
};

struct Redistribution {
  std::vector<RedistributeRun> runs;
  Routes backward;
};

class RedistributeFunction : public torch::autograd::Function<RedistributeFunction> {
 public:
  static Tensors forward(torch::autograd::AutogradContext* context, at::TensorList /*inputs*/,
                         const Redistribution& redistribution) {
    context->saved_data["routes"] =
        c10::IValue::make_capsule(c10::make_intrusive<BackwardRoutes>(redistribution.backward));
    return run_steps(redistribution.runs);
  }

  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    const auto holder = context->saved_data["routes"].toCapsule();
    const Routes& routes = static_cast<BackwardRoutes&>(*holder).routes;
    std::vector<RedistributeRun> runs;
    for (size_t i = 0; i < gradients.size(); ++i) {
      runs.push_back(run_of(gradients[i].contiguous(), routes[i]));
    }
    Tensors results = run_steps(runs);
    results.emplace_back();  // The redistribution itself has no gradient.
    return results;
  }
};

// Without gradients, autograd is not involved.
Tensors redistribute_with_gradients(const Redistribution& redistribution) {
  Tensors inputs;
  bool differentiable = false;
  for (const RedistributeRun& run : redistribution.runs) {
    inputs.push_back(run.local);
    differentiable |= run.local.requires_grad();
  }
  if (!differentiable || !at::GradMode::is_enabled()) return run_steps(redistribution.runs);
  return RedistributeFunction::apply(at::TensorList(inputs), redistribution);
}

}  // namespace

std::vector<at::Tensor> redistribute_locals(std::span<const at::Tensor> locals,
                                            std::span<const Route> routes) {
  Redistribution redistribution;
  for (size_t i = 0; i < locals.size(); ++i) {
    redistribution.runs.push_back(run_of(locals[i], routes[i]));
    redistribution.backward.push_back(backward_route(routes[i]));
  }
  return redistribute_with_gradients(redistribution);
}

at::Tensor with_gradient_route(const at::Tensor& local, const Route& route) {
  return redistribute_with_gradients({{{local, route.mesh, route.shape, {}}}, {route}})[0];
}

}  // namespace tessera::tensor::detail
