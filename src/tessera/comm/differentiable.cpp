#include "tessera/comm/differentiable.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "tessera/base/check.h"

namespace tessera::differentiable {
namespace {

// Autograd can only save its own types, so a holder carries the function to the backward pass.
struct Backward : torch::CustomClassHolder {
  explicit Backward(Map given) : map(std::move(given)) {}
  Map map;
};

class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tensor,
                            const Map& forward, const Map& backward) {
    context->saved_data["backward"] =
        c10::IValue::make_capsule(c10::make_intrusive<Backward>(backward));
    // The result may be a view of a buffer; autograd lets nobody change such a view in place.
    return forward(tensor.detach()).detach();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto holder = context->saved_data["backward"].toCapsule();
    return {static_cast<Backward&>(*holder).map(gradients[0].contiguous()), at::Tensor(),
            at::Tensor()};
  }
};

at::Tensor own_entry(const at::Tensor& pieces, Member src, const Group& group) {
  const at::Tensor mine = at::empty_like(pieces[0], at::MemoryFormat::Contiguous);
  return tessera::scatter(mine, pieces.unbind(0), src, group).wait();
}

at::Tensor stacked_on(const at::Tensor& tensor, Member dst, const Group& group) {
  const std::vector<at::Tensor> all = tessera::gather(tensor, dst, group).wait();
  if (!all.empty()) return at::stack(all);
  Sizes shape{group.size()};
  shape.insert(shape.end(), tensor.sizes().begin(), tensor.sizes().end());
  return at::zeros(shape, tensor.options());
}

}  // namespace

// All collectives here are linear maps.
at::Tensor linear_map(const at::Tensor& tensor, const Map& forward, const Map& backward) {
  return Linear::apply(tensor, forward, backward);
}

at::Tensor all_gather(const at::Tensor& tensor, const Group& group, int64_t dim) {
  return linear_map(
      tensor, [=](const at::Tensor& x) { return tessera::all_gather(x, group, dim).wait(); },
      [=](const at::Tensor& g) {
        return tessera::reduce_scatter(g, group, ReduceOp::kSum, dim).wait();
      });
}

at::Tensor reduce_scatter(const at::Tensor& tensor, const Group& group, int64_t dim) {
  return linear_map(
      tensor,
      [=](const at::Tensor& x) {
        return tessera::reduce_scatter(x, group, ReduceOp::kSum, dim).wait();
      },
      [=](const at::Tensor& g) { return tessera::all_gather(g, group, dim).wait(); });
}

at::Tensor all_reduce(const at::Tensor& tensor, const Group& group) {
  return linear_map(
      tensor, [=](const at::Tensor& x) { return tessera::all_reduce(x.clone(), group).wait(); },
      [](const at::Tensor& g) { return g; });
}

at::Tensor identity(const at::Tensor& tensor, const Group& group) {
  return linear_map(
      tensor, [](const at::Tensor& x) { return x.clone(); },
      [=](const at::Tensor& g) { return tessera::all_reduce(g.clone(), group).wait(); });
}

at::Tensor all_to_all(const at::Tensor& tensor, const Sizes& send, const Sizes& receive,
                      const Group& group) {
  return linear_map(
      tensor,
      [=](const at::Tensor& x) { return tessera::all_to_all(x, send, receive, group).wait(); },
      [=](const at::Tensor& g) { return tessera::all_to_all(g, receive, send, group).wait(); });
}

struct InFlight::Works {
  Sizes send;
  Sizes receive;
  Group group;
  std::optional<Work> forward = std::nullopt;
  std::optional<Work> backward = std::nullopt;
};

InFlight start_all_to_all(const at::Tensor& tensor, const Sizes& send, const Sizes& receive,
                          const Group& group) {
  const auto works = std::make_shared<InFlight::Works>(InFlight::Works{send, receive, group});
  const at::Tensor token = linear_map(
      tensor,
      [&](const at::Tensor& x) {
        works->forward.emplace(tessera::all_to_all(x, send, receive, group));
        return at::empty({0}, x.options());
      },
      [works](const at::Tensor&) { return std::move(*works->backward).wait(); });
  return {.tensor = token, .works = works};
}

at::Tensor finish(const InFlight& started) {
  return linear_map(
      started.tensor, [&](const at::Tensor&) { return std::move(*started.works->forward).wait(); },
      [works = started.works](const at::Tensor& g) {
        works->backward.emplace(tessera::all_to_all(g, works->receive, works->send, works->group));
        return at::empty({0}, g.options());
      });
}

at::Tensor scatter(const at::Tensor& pieces, Member src, const Group& group) {
  TSR_CHECK(pieces.dim() > 0 && pieces.size(0) == group.size(), "scatter got a tensor of shape ",
            pieces.sizes(), "; dimension 0 must have one entry per rank, ", group.size(),
            " in group ", group.name());
  return linear_map(
      pieces, [=](const at::Tensor& x) { return own_entry(x, src, group); },
      [=](const at::Tensor& g) { return stacked_on(g, src, group); });
}

at::Tensor gather(const at::Tensor& tensor, Member dst, const Group& group) {
  return linear_map(
      tensor, [=](const at::Tensor& x) { return stacked_on(x, dst, group); },
      [=](const at::Tensor& g) { return own_entry(g, dst, group); });
}

}  // namespace tessera::differentiable
