#include "tessera/parallel/expert/token_share.h"

#include <ATen/ops/cat.h>

#include "tessera/comm/collectives.h"
#include "tessera/comm/differentiable.h"
#include "tessera/topology/box.h"

namespace tessera {
namespace {

bool shares(const Pass& pass) {
  return pass.tensor != nullptr && pass.tensor->group.size() > 1 && !pass.tensor->sequence;
}

at::Tensor own_part(const at::Tensor& all, const Group& group) {
  const Span own = chunk(all.size(0), group.size(), group.rank().value);
  return all.slice(0, own.begin, own.end);
}

at::Tensor joined(const at::Tensor& own, const Group& group) {
  return at::cat(all_gather_uneven(own.contiguous(), group).wait());
}

}  // namespace

at::Tensor own_tokens(const at::Tensor& x, const Pass& pass) {
  if (!shares(pass)) return x;
  if (!at::isFloatingType(x.scalar_type())) return own_part(x, pass.tensor->group);
  return differentiable::linear_map(
      x, [&](const at::Tensor& all) { return own_part(all, pass.tensor->group).clone(); },
      [group = pass.tensor->group](const at::Tensor& g) { return joined(g, group); });
}

at::Tensor all_tokens(const at::Tensor& own, const Pass& pass) {
  if (!shares(pass)) return own;
  return differentiable::linear_map(
      own, [&](const at::Tensor& x) { return joined(x, pass.tensor->group); },
      [group = pass.tensor->group](const at::Tensor& g) { return own_part(g, group).clone(); });
}

}  // namespace tessera
