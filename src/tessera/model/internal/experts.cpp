#include "tessera/model/internal/experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>

#include <array>

#include "tessera/base/text.h"
#include "tessera/format/model_family.h"
#include "tessera/layer/linear.h"
#include "tessera/layer/router_balance.h"
#include "tessera/layer/router_capacity.h"
#include "tessera/layer/swiglu.h"
#include "tessera/layer/token_order.h"
#include "tessera/parallel/expert/expert_exchange.h"
#include "tessera/parallel/expert/token_gather.h"
#include "tessera/parallel/expert/token_share.h"

namespace tessera::model::detail {
namespace {

int64_t index_of(int64_t layer, const LlamaConfig& config) {
  int64_t index = 0;
  for (int64_t i = 0; i < layer; ++i) index += config.has_experts(i) ? 1 : 0;
  return index;
}

ExpertWeights own(const ExpertWeights& all, Span experts) {
  return {all.begin() + experts.begin, all.begin() + experts.end};
}

void list_expert(const std::string& name, const ExpertOf& expert, const at::Tensor& weight,
                 size_t tensor_dim, Parameters& to) {
  to.push_back({name + ".weight", weight, tensor_dim});
  to.back().expert = expert;
}

}  // namespace

SharedExpert::SharedExpert(const LlamaConfig& c, const at::TensorOptions& options)
    : mlp(c.hidden_size, c.shared_expert_intermediate_size, /*has_bias=*/false, options),
      gate(make_parameter({1, c.hidden_size}, options)) {}

at::Tensor SharedExpert::operator()(const at::Tensor& x, const Pass& pass) const {
  return at::sigmoid(linear(x, gate, {}, pass)) * mlp(x, pass);
}

void SharedExpert::list(const std::string& block, Parameters& to) const {
  mlp.list(block + ".shared_expert", to);
  to.push_back({block + ".shared_expert_gate.weight", gate});
}

Experts::Experts(const LlamaConfig& c, int64_t layer, const at::TensorOptions& options)
    : model_type(c.model_type),
      index(index_of(layer, c)),
      options{.top_k = c.num_experts_per_tok, .normalize = c.norm_topk_prob},
      router(make_parameter({c.num_experts, c.hidden_size}, options)) {
  for (int64_t i = 0; i < c.num_experts; ++i) {
    gate.push_back(make_parameter({c.expert_size(), c.hidden_size}, options));
    up.push_back(make_parameter({c.expert_size(), c.hidden_size}, options));
    down.push_back(make_parameter({c.hidden_size, c.expert_size()}, options));
  }
  if (c.shared_expert_intermediate_size > 0) shared.emplace(c, options);
}

at::Tensor Experts::operator()(const at::Tensor& x, const Pass& pass) const {
  Pass exact = pass;  // A choice of experts must not depend on the rounding of float8.
  exact.fp8 = Fp8::kNone;
  const at::Tensor logits = linear(x, router, {}, exact);
  const Routing routing = route(logits, options);
  const at::Tensor weights = pass.balance == nullptr
                                 ? routing.weights
                                 : pass.balance->join(routing, logits, index, !pass.second_run);
  const auto tokens = [&](const at::Tensor& y) { return own_tokens(y.flatten(0, 1), pass); };
  const at::Tensor chosen =
      pass.capacity == nullptr ? routing.experts : pass.capacity->keep(routing, pass.places, index);
  const Routing own{.experts = tokens(chosen), .weights = tokens(weights)};
  const bool gathers = pass.experts != nullptr && pass.experts->dispatch == Dispatch::kAllGather;
  at::Tensor of_shared;
  const auto run_shared = [&] {
    if (shared) of_shared = (*shared)(x, pass);
  };
  if (gathers) run_shared();
  const at::Tensor sums =
      gathers ? by_tokens(tokens(x), own, pass) : by_rows(tokens(x), own, pass, run_shared);
  const at::Tensor routed = all_tokens(sums, pass).view_as(x);
  return shared ? routed + of_shared : routed;
}

at::Tensor Experts::by_rows(const at::Tensor& x, const Routing& routing, const Pass& pass,
                            const std::function<void()>& meanwhile) const {
  TokenOrder order = order_by_expert(routing.experts, router.size(0));
  order.row_scale = pass.experts == nullptr ? 1 : pass.experts->row_scale;
  const ExpertExchange exchange(order.counts, x.device(), pass);
  const ExpertExchange::InFlight sent = exchange.start(expert_rows(x, order));
  meanwhile();
  const at::Tensor rows = exchange.finish(sent);
  const at::Tensor results = compute(rows, exchange.counts(), pass);
  return combine_rows(exchange.give_back(results), routing.weights, order);
}

at::Tensor Experts::by_tokens(const at::Tensor& x, const Routing& routing, const Pass& pass) const {
  const TokenGather all(x.size(0), *pass.experts);
  const Span here = own_experts(router.size(0), pass);
  const TokenOrder order = order_by_expert(all.gather(routing.experts) - here.begin, here.size());
  const at::Tensor rows = expert_rows(all.gather(x), order);
  const at::Tensor results = compute(rows, order.counts, pass);
  return all.reduce(combine_rows(results, all.gather(routing.weights), order));
}

at::Tensor Experts::compute(const at::Tensor& rows, std::span<const int64_t> counts,
                            const Pass& pass) const {
  const Span here = own_experts(router.size(0), pass);
  const std::vector<at::Tensor> wide =
      grouped_linear(rows, counts, std::array{own(gate, here), own(up, here)}, pass);
  return grouped_linear(swiglu(wide[0], wide[1]), counts, own(down, here), pass);
}

void Experts::list(const std::string& name, Parameters& to) const {
  const ExpertNames& names = model_family(model_type).experts;
  const std::string block = concat(name, ".", names.block);
  const int64_t count = router.size(0);
  to.push_back({block + ".gate.weight", router});
  for (int64_t i = 0; i < count; ++i) {
    const std::string prefix = concat(block, ".experts.", i, ".");
    const ExpertOf expert{.layer = index, .index = i, .count = count};
    const auto at = static_cast<size_t>(i);
    list_expert(concat(prefix, names.gate), expert, gate[at], 0, to);
    list_expert(concat(prefix, names.up), expert, up[at], 0, to);
    list_expert(concat(prefix, names.down), expert, down[at], 1, to);
  }
  if (shared) shared->list(block, to);
}

}  // namespace tessera::model::detail
