#include "tessera/parallel/tensor/internal/layouts.h"

#include <ATen/ops/constant_pad_nd.h>

#include <variant>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/differentiable.h"
#include "tessera/topology/box.h"

namespace tessera::tensor::detail {
namespace {

int64_t sharded_dim(const Placement& layout, const at::Tensor& x) {
  const int64_t dim = std::get<Shard>(layout).dim;
  TSR_CHECK(-x.dim() <= dim && dim < x.dim(), "layout ", layout, " does not fit a tensor of shape ",
            x.sizes());
  return dim < 0 ? dim + x.dim() : dim;
}

bool is_last(int64_t dim, const at::Tensor& x) {
  return dim == x.dim() - 1;
}

// The split of a whole tensor.
SplitDim split_of(const at::Tensor& whole, const Placement& layout, const Group& group) {
  const int64_t dim = sharded_dim(layout, whole);
  const int64_t size = whole.size(dim);
  TSR_CHECK(is_last(dim, whole) || size % group.size() == 0, "dimension ", dim, " of shape ",
            whole.sizes(), " cannot be split evenly over the ", group.size(), " ranks of group ",
            group.name(), "; choose a size that is a multiple of ", group.size());
  return {group, dim, size};
}

// The split that this piece comes from.
SplitDim split_with(const at::Tensor& piece, const Placement& layout, const Group& group,
                    int64_t width) {
  const int64_t dim = sharded_dim(layout, piece);
  return {group, dim, is_last(dim, piece) ? width : piece.size(dim) * group.size()};
}

at::Tensor sum_of(const at::Tensor& partial, const Group& group) {
  return all_reduce(partial.clone(at::MemoryFormat::Contiguous), group).wait();
}

at::Tensor piece_of_sum(const at::Tensor& partial, const SplitDim& split) {
  if (split.size % split.group.size() != 0) return piece_of(sum_of(partial, split.group), split);
  return reduce_scatter(partial, split.group, ReduceOp::kSum, split.dim).wait();
}

bool is_replicated(const Placement& layout) {
  return std::holds_alternative<Replicate>(layout);
}

}  // namespace

// Only the last pieces may be short, so their padding lies at the end.
at::Tensor whole_of(const at::Tensor& piece, const SplitDim& split) {
  const int64_t ranks = split.group.size();
  const int64_t missing = (split.size + ranks - 1) / ranks - piece.size(split.dim);
  std::vector<int64_t> padding(2 * static_cast<size_t>(piece.dim() - split.dim), 0);
  padding.back() = missing;
  const at::Tensor padded = missing == 0 ? piece.contiguous() : at::constant_pad_nd(piece, padding);
  at::Tensor whole = all_gather(padded, split.group, split.dim).wait();
  if (whole.size(split.dim) == split.size) return whole;
  return whole.narrow(split.dim, 0, split.size).clone(at::MemoryFormat::Contiguous);
}

at::Tensor piece_of(const at::Tensor& whole, const SplitDim& split) {
  const Span span = chunk(split.size, split.group.size(), split.group.rank().value);
  return whole.narrow(split.dim, span.begin, span.size()).clone(at::MemoryFormat::Contiguous);
}

at::Tensor converted(const at::Tensor& x, const Placement& from, const Placement& to,
                     const Group& group, int64_t width) {
  if (is_replicated(from) && is_replicated(to)) return x;
  if (is_replicated(to)) {
    const SplitDim split = split_with(x, from, group, width);
    return differentiable::linear_map(
        x, [=](const at::Tensor& piece) { return whole_of(piece, split); },
        [=](const at::Tensor& gradient) { return piece_of(gradient, split); });
  }
  if (is_replicated(from)) {
    const SplitDim split = split_of(x, to, group);
    return differentiable::linear_map(
        x, [=](const at::Tensor& whole) { return piece_of(whole, split); },
        [=](const at::Tensor& gradient) { return whole_of(gradient, split); });
  }
  if (sharded_dim(from, x) == sharded_dim(to, x)) return x;
  return converted(converted(x, from, Replicate{}, group, width), Replicate{}, to, group, width);
}

at::Tensor entered(const at::Tensor& x, const Placement& from, const Group& group, int64_t width) {
  if (is_replicated(from)) return with_summed_gradient(x, group);
  const SplitDim split = split_with(x, from, group, width);
  return differentiable::linear_map(
      x, [=](const at::Tensor& piece) { return whole_of(piece, split); },
      [=](const at::Tensor& gradient) { return piece_of_sum(gradient, split); });
}

at::Tensor summed(const at::Tensor& x, const Placement& to, const Group& group) {
  if (is_replicated(to)) return differentiable::all_reduce(x, group);
  const SplitDim split = split_of(x, to, group);
  return differentiable::linear_map(
      x, [=](const at::Tensor& partial) { return piece_of_sum(partial, split); },
      [=](const at::Tensor& gradient) { return whole_of(gradient, split); });
}

at::Tensor with_summed_gradient(const at::Tensor& parameter, const Group& group) {
  if (!parameter.requires_grad()) return parameter;
  return differentiable::linear_map(
      parameter, [](const at::Tensor& same) { return same; },
      [=](const at::Tensor& gradient) { return sum_of(gradient, group); });
}

}  // namespace tessera::tensor::detail
