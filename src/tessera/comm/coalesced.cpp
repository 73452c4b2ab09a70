// Many tensors in one operation: one message per pair of ranks, not one per tensor.
#include <ATen/ATen.h>

#include "tessera/base/check.h"
#include "tessera/comm/buffers.h"
#include "tessera/comm/internal/operation.h"
#include "tessera/comm/internal/wire.h"

namespace tessera {

using namespace comm::detail;

namespace {

// In one buffer of the group, along `dim`.
at::Tensor joined(const Tensors& tensors, int64_t dim, const Group& group) {
  Sizes shape = tensors.front().sizes().vec();
  int64_t& size = shape[static_cast<size_t>(dim)];
  size = 0;
  for (const at::Tensor& tensor : tensors) size += tensor.size(dim);
  at::Tensor all = empty_buffer(shape, tensors.front().options(), group);
  return at::cat_out(all, tensors, dim);
}

}  // namespace

ListWork all_reduce_coalesced(std::span<const at::Tensor> tensors, const Group& given,
                              ReduceOp op) {
  TSR_CHECK(!tensors.empty(), "all_reduce_coalesced got no tensors; pass at least 1");
  const Group group = carrier(tensors, given, "all_reduce_coalesced", Access::kWrite);
  const auto wire_reduce = wire_op(op, tensors[0], group);
  Tensors flat;
  for (const at::Tensor& tensor : tensors) {
    TSR_CHECK(tensor.scalar_type() == tensors[0].scalar_type(), "all_reduce_coalesced got dtypes ",
              tensors[0].scalar_type(), " and ", tensor.scalar_type(),
              "; start one operation per dtype");
    flat.push_back(tensor.detach().reshape({-1}));
  }
  Tensors results(tensors.begin(), tensors.end());
  if (group.size() == 1)
    return done(begin({.name = "all_reduce_coalesced", .inputs = tensors, .op = op}, group),
                results);
  Operation operation = begin({.name = "all_reduce_coalesced", .inputs = tensors, .op = op}, group);
  at::Tensor wire = reducible(joined(flat, 0, group), group);
  c10d::AllreduceOptions options;
  options.reduceOp = wire_reduce;
  Tensors inputs{wire};
  operation->start([&] { return operation->engine->allreduce(inputs, options); });
  operation->finish = [results, wire, divisor = divisor_of(op, group)] {
    const at::NoGradGuard no_grad;
    if (divisor != 1) wire.div_(divisor);
    int64_t at = 0;
    for (const at::Tensor& tensor : results) {
      tensor.detach().copy_(wire.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
  };
  return done(std::move(operation), results);
}

ListWork all_gather_coalesced(std::span<const at::Tensor> tensors, const Group& given,
                              int64_t dim) {
  TSR_CHECK(!tensors.empty(), "all_gather_coalesced got no tensors; pass at least 1");
  const Group group = carrier(tensors, given, "all_gather_coalesced", Access::kRead);
  // All tensors as one row of bytes: one message per pair of ranks.
  Tensors rows;
  std::vector<int64_t> dims;
  for (const at::Tensor& tensor : tensors) {
    dims.push_back(normal_dim(dim, tensor, "all_gather_coalesced"));
    rows.push_back(bytes_of(tensor.contiguous()));
  }
  Operation operation =
      begin({.name = "all_gather_coalesced", .inputs = tensors, .dim = dim}, group);
  if (!operation->sends()) return done(std::move(operation), {tensors.begin(), tensors.end()});
  const at::Tensor input = on_wire(joined(rows, 0, group), group);
  const at::Tensor all = empty_buffer({group.size() * input.numel()}, input.options(), group);
  start_all_gather(*operation, all, input);
  auto* const raw = operation.get();
  const Tensors originals(tensors.begin(), tensors.end());
  operation->finish = [raw, all, originals, rows, dims, size = group.size()] {
    const at::Tensor table = all.view({size, -1});
    int64_t at = 0;
    for (size_t i = 0; i < originals.size(); ++i) {
      const at::Tensor& like = originals[i];
      Sizes shape{size};
      shape.insert(shape.end(), like.sizes().begin(), like.sizes().end());
      const at::Tensor piece = table.narrow(1, at, rows[i].numel()).contiguous();
      const at::Tensor typed = piece.view(like.scalar_type()).view(shape);
      raw->results.push_back(typed.movedim(0, dims[i]).flatten(dims[i], dims[i] + 1));
      at += rows[i].numel();
    }
  };
  return Work(std::move(operation));
}

ListWork reduce_scatter_coalesced(std::span<const at::Tensor> tensors, const Group& given,
                                  ReduceOp op) {
  TSR_CHECK(!tensors.empty(), "reduce_scatter_coalesced got no tensors; pass at least 1");
  const Group group = carrier(tensors, given, "reduce_scatter_coalesced", Access::kRead);
  const auto wire_reduce = wire_op(op, tensors[0], group);
  // Row r holds the pieces of rank r of all tensors.
  Tensors rows;
  for (const at::Tensor& tensor : tensors) {
    TSR_CHECK(tensor.scalar_type() == tensors[0].scalar_type() && tensor.dim() > 0,
              "reduce_scatter_coalesced got dtypes ", tensors[0].scalar_type(), " and ",
              tensor.scalar_type(), "; start one operation per dtype, without scalars");
    (void)equal_sizes(tensor.size(0), group, "reduce_scatter_coalesced");
    rows.push_back(tensor.detach().reshape({group.size(), -1}));
  }
  Operation operation =
      begin({.name = "reduce_scatter_coalesced", .inputs = tensors, .op = op}, group);
  if (!operation->sends()) return done(std::move(operation), {tensors.begin(), tensors.end()});
  const at::Tensor table = joined(rows, 1, group);
  at::Tensor input = reducible(table, group).view({-1});
  at::Tensor output = empty_buffer({table.size(1)}, input.options(), group);
  const auto reduce = start_reduce_scatter(*operation, output, input, wire_reduce);
  auto* const raw = operation.get();
  const Tensors originals(tensors.begin(), tensors.end());
  operation->finish = [raw, reduce, output, originals, divisor = divisor_of(op, group),
                       size = group.size()] {
    reduce();
    if (divisor != 1) output.div_(divisor);
    int64_t at = 0;
    for (const at::Tensor& like : originals) {
      Sizes shape = like.sizes().vec();
      shape[0] /= size;
      const int64_t numel = numel_of(shape);
      raw->results.push_back(output.narrow(0, at, numel).to(like.scalar_type()).view(shape));
      at += numel;
    }
  };
  return Work(std::move(operation));
}

}  // namespace tessera
