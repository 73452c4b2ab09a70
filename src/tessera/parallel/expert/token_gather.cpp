#include "tessera/parallel/expert/token_gather.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <numeric>

#include "tessera/comm/collectives.h"
#include "tessera/comm/differentiable.h"

namespace tessera {
namespace {

// No GPU is waited for.
std::vector<int64_t> numbers_of_all(int64_t own, const Group& group) {
  const at::Tensor all = all_gather(at::full({1}, own, at::kLong), group).wait();
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}

}  // namespace

TokenGather::TokenGather(int64_t tokens, const ExpertParallel& parallel)
    : parallel_(parallel),
      in_ep_(numbers_of_all(tokens, parallel.ep)),
      in_etp_(numbers_of_all(std::accumulate(in_ep_.begin(), in_ep_.end(), int64_t{0}),
                             parallel.etp)) {}

at::Tensor TokenGather::gathered(at::Tensor x) const {
  for (const Group& group : {parallel_.ep, parallel_.etp}) {
    x = at::cat(all_gather_uneven(x.contiguous(), group).wait());
  }
  return x;
}

at::Tensor TokenGather::scattered(at::Tensor x) const {
  x = reduce_scatter(x.contiguous(), parallel_.etp, ReduceOp::kSum, /*dim=*/0, in_etp_).wait();
  return reduce_scatter(x, parallel_.ep, ReduceOp::kSum, /*dim=*/0, in_ep_).wait();
}

// Gradients travel with the factor of ExpertParallel::row_scale.
at::Tensor TokenGather::gather(const at::Tensor& own) const {
  if (!at::isFloatingType(own.scalar_type())) return gathered(own);
  return differentiable::linear_map(
      own, [&](const at::Tensor& x) { return gathered(x); },
      [self = *this](const at::Tensor& g) { return self.scattered(g) / self.parallel_.row_scale; });
}

at::Tensor TokenGather::reduce(const at::Tensor& all) const {
  return differentiable::linear_map(
      all, [&](const at::Tensor& x) { return scattered(x); },
      [self = *this](const at::Tensor& g) { return self.gathered(g * self.parallel_.row_scale); });
}

}  // namespace tessera
