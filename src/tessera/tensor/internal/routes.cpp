#include "tessera/tensor/internal/routes.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tessera/tensor/internal/journey.h"

namespace tessera::tensor::detail {
namespace {

using Tensors = std::vector<at::Tensor>;
using Routes = std::vector<Route>;

Journey journey_of(const at::Tensor& local, const Route& route) {
  return {local, route.mesh, route.shape,
          redistribute_plan(route.shape, route.mesh.shape(), route.from, route.to)};
}

Route way_back(const Route& route) {
  return {route.mesh, route.shape, gradient_placements(route.to), gradient_placements(route.from)};
}

// Autograd keeps values that it knows; a holder carries the rest to the backward pass.
struct RoutesBack : torch::CustomClassHolder {
  explicit RoutesBack(Routes given) : routes(std::move(given)) {}
  Routes routes;
};

struct Trip {
  std::vector<Journey> journeys;
  Routes back;
};

class Travel : public torch::autograd::Function<Travel> {
 public:
  static Tensors forward(torch::autograd::AutogradContext* context, at::TensorList /*inputs*/,
                         const Trip& trip) {
    context->saved_data["routes"] =
        c10::IValue::make_capsule(c10::make_intrusive<RoutesBack>(trip.back));
    return travel(trip.journeys);
  }

  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    const auto holder = context->saved_data["routes"].toCapsule();
    const Routes& routes = static_cast<RoutesBack&>(*holder).routes;
    std::vector<Journey> journeys;
    for (size_t i = 0; i < gradients.size(); ++i) {
      journeys.push_back(journey_of(gradients[i].contiguous(), routes[i]));
    }
    Tensors results = travel(journeys);
    results.emplace_back();  // The trip itself has no gradient.
    return results;
  }
};

// Where no gradient is wanted, autograd need not know.
Tensors travel_with_gradients(const Trip& trip) {
  Tensors inputs;
  bool differentiable = false;
  for (const Journey& journey : trip.journeys) {
    inputs.push_back(journey.local);
    differentiable |= journey.local.requires_grad();
  }
  if (!differentiable || !at::GradMode::is_enabled()) return travel(trip.journeys);
  return Travel::apply(at::TensorList(inputs), trip);
}

}  // namespace

std::vector<at::Tensor> redistribute_locals(std::span<const at::Tensor> locals,
                                            std::span<const Route> routes) {
  Trip trip;
  for (size_t i = 0; i < locals.size(); ++i) {
    trip.journeys.push_back(journey_of(locals[i], routes[i]));
    trip.back.push_back(way_back(routes[i]));
  }
  return travel_with_gradients(trip);
}

at::Tensor with_gradient_route(const at::Tensor& local, const Route& route) {
  return travel_with_gradients({{{local, route.mesh, route.shape, {}}}, {route}})[0];
}

}  // namespace tessera::tensor::detail
