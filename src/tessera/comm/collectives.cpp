#include "tessera/comm/collectives.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/comm/buffers.h"
#include "tessera/comm/groups.h"
#include "tessera/comm/internal/operation.h"
#include "tessera/comm/internal/wire.h"
#include "tessera/comm/world.h"

namespace tessera {

using namespace comm::detail;

namespace {

int64_t sum_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

void check_sizes(const Sizes& sizes, int64_t total, const Group& group, const char* what) {
  TSR_CHECK(static_cast<int64_t>(sizes.size()) == group.size(), what, " got ", sizes.size(),
            " sizes in group ", group.name(), " of ", group.size(), " ranks; pass one per rank");
  for (const int64_t size : sizes) {
    TSR_CHECK(size >= 0, "sizes for ", what, " must be ≥ 0, but one is ", size);
  }
  TSR_CHECK(sum_of(sizes) == total, "the sizes ", join(sizes, "+"), " for ", what, " add up to ",
            sum_of(sizes), ", not to ", total);
}

// The shapes of all ranks, in group-rank order. Waits, but not for a GPU.
std::vector<Sizes> exchange_shapes(const at::Tensor& tensor, const Group& group) {
  constexpr int64_t kMostDims = 16;
  TSR_CHECK(tensor.dim() < kMostDims, "all_gather supports less than ", kMostDims,
            " dimensions, but the tensor has ", tensor.dim());
  if (group.backend() == Backend::kFake) {  // Nobody else says theirs.
    return std::vector<Sizes>(static_cast<size_t>(group.size()), tensor.sizes().vec());
  }
  const at::Tensor mine = at::zeros({1, kMostDims}, at::kLong);
  auto* const words = mine.mutable_data_ptr<int64_t>();
  words[0] = tensor.dim();
  std::ranges::copy(tensor.sizes(), words + 1);
  const at::Tensor all = all_gather(mine, group).wait();
  std::vector<Sizes> shapes;
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    const int64_t* const row = all.const_data_ptr<int64_t>() + rank * kMostDims;
    shapes.emplace_back(row + 1, row + 1 + row[0]);
  }
  return shapes;
}

// Copies the engine's result to the tensor; `divisor` is 1 unless the reduction is an average.
void write_back_when_done(PendingOperation& operation, const at::Tensor& wire,
                          const at::Tensor& tensor, int64_t divisor = 1) {
  operation.kept = {wire};
  const bool is_there = wire.data_ptr() == tensor.data_ptr();
  if (is_there && divisor == 1) return;
  operation.finish = [wire, tensor, divisor, is_there] {
    const at::NoGradGuard no_grad;
    if (divisor != 1) wire.div_(divisor);
    if (!is_there) tensor.detach().copy_(wire);
  };
}

}  // namespace

Work all_reduce(const at::Tensor& tensor, const Group& given, ReduceOp op) {
  const Group group = carrier(tensor, given, "all_reduce", Access::kWrite);
  const auto wire_reduce = wire_op(op, tensor, group);
  Operation operation = begin({.name = "all_reduce", .inputs = {&tensor, 1}, .op = op}, group);
  if (!operation->sends()) return done(std::move(operation), {tensor});
  at::Tensor wire = reducible(tensor, group);
  c10d::AllreduceOptions options;
  options.reduceOp = wire_reduce;
  Tensors inputs{wire};
  operation->start([&] { return operation->engine->allreduce(inputs, options); });
  write_back_when_done(*operation, wire, tensor, divisor_of(op, group));
  return done(std::move(operation), {tensor});
}

Work reduce(const at::Tensor& tensor, Member root, const Group& given, ReduceOp op) {
  const Group group = carrier(tensor, given, "reduce", Access::kWrite);
  const auto wire_reduce = wire_op(op, tensor, group);
  const GroupRank dst = root.in(group);
  Operation operation =
      begin({.name = "reduce", .inputs = {&tensor, 1}, .op = op, .root = dst}, group);
  if (!operation->sends()) return done(std::move(operation), {tensor});
  at::Tensor wire = reducible(tensor, group);
  const bool is_overwritten = group.rank() != dst && !operation->communicator->by_memory();
  if (is_overwritten && wire.data_ptr() == tensor.data_ptr()) wire = wire.clone();
  c10d::ReduceOptions options;
  options.reduceOp = wire_reduce;
  options.rootRank = static_cast<int>(dst.value);
  Tensors inputs{wire};
  operation->start([&] { return operation->engine->reduce(inputs, options); });
  if (group.rank() == dst) {
    write_back_when_done(*operation, wire, tensor, divisor_of(op, group));
  } else {
    operation->kept = {wire};
  }
  return done(std::move(operation), {tensor});
}

Work broadcast(const at::Tensor& tensor, Member root, const Group& given) {
  const Group group = carrier(tensor, given, "broadcast", Access::kWrite);
  const GroupRank src = root.in(group);
  Operation operation = begin({.name = "broadcast", .inputs = {&tensor, 1}, .root = src}, group);
  if (!operation->sends() || tensor.numel() == 0) return done(std::move(operation), {tensor});
  const at::Tensor dense = on_wire(tensor, group);
  c10d::BroadcastOptions options;
  options.rootRank = static_cast<int>(src.value);
  Tensors inputs{operation->as_bytes(dense)};
  operation->start([&] { return operation->engine->broadcast(inputs, options); });
  write_back_when_done(*operation, dense, tensor);
  return done(std::move(operation), {tensor});
}

Work all_gather(const at::Tensor& tensor, const Group& given, int64_t dim) {
  const Group group = carrier(tensor, given, "all_gather", Access::kRead);
  const int64_t along = normal_dim(dim, tensor, "all_gather");
  Sizes joined = tensor.sizes().vec();
  joined[static_cast<size_t>(along)] *= group.size();
  Operation operation =
      begin({.name = "all_gather", .inputs = {&tensor, 1}, .dim = along, .output = joined}, group);
  if (!operation->sends()) return done(std::move(operation), {tensor.detach()});
  const at::Tensor dense = on_wire(tensor, group);
  if (along == 0) {
    const at::Tensor all = empty_buffer(joined, dense.options(), group);
    start_all_gather(*operation, all, dense);
    return done(std::move(operation), {all});
  }
  // The engine concatenates along a new dimension 0: permute afterwards.
  Sizes shape{group.size()};
  shape.insert(shape.end(), dense.sizes().begin(), dense.sizes().end());
  const at::Tensor all = empty_buffer(shape, dense.options(), group);
  start_all_gather(*operation, all, dense);
  auto* const raw = operation.get();
  operation->finish = [raw, all, along] {
    const at::Tensor joined = all.movedim(0, along);  // …, rank, dim, …
    raw->results = {joined.flatten(along, along + 1)};
  };
  return Work(std::move(operation));
}

ListWork all_gather_uneven(const at::Tensor& tensor, const Group& given) {
  const Group group = carrier(tensor, given, "all_gather", Access::kRead);
  if (group.size() == 1) return done(begin({.name = "all_gather"}, group), {tensor.detach()});
  const std::vector<Sizes> shapes = exchange_shapes(tensor, group);
  int64_t largest = 0;
  for (const Sizes& shape : shapes) largest = std::max(largest, numel_of(shape));
  // Engines only gather equal pieces, so each is padded to the largest.
  at::Tensor padded = at::zeros({std::max<int64_t>(1, largest)}, tensor.options());
  padded.narrow(0, 0, tensor.numel()).copy_(tensor.detach().reshape({-1}));
  const at::Tensor dense = on_wire(padded, group);
  const at::Tensor all = empty_buffer({group.size(), dense.numel()}, dense.options(), group);
  Operation operation =
      begin({.name = "all_gather", .inputs = {&padded, 1}, .output = all.sizes().vec()}, group);
  start_all_gather(*operation, all, dense);
  auto* const raw = operation.get();
  operation->finish = [raw, all, shapes] {
    for (size_t rank = 0; rank < shapes.size(); ++rank) {
      const at::Tensor row = all[static_cast<int64_t>(rank)];
      raw->results.push_back(row.narrow(0, 0, numel_of(shapes[rank])).reshape(shapes[rank]));
    }
  };
  return Work(std::move(operation));
}

Work reduce_scatter(const at::Tensor& tensor, const Group& given, ReduceOp op, int64_t dim,
                    const std::optional<Sizes>& sizes) {
  const Group group = carrier(tensor, given, "reduce_scatter", Access::kRead);
  const int64_t along = normal_dim(dim, tensor, "reduce_scatter");
  const auto wire_reduce = wire_op(op, tensor, group);
  const Sizes pieces = sizes ? *sizes : equal_sizes(tensor.size(along), group, "reduce_scatter");
  check_sizes(pieces, tensor.size(along), group, "reduce_scatter");
  Sizes output_shape = tensor.sizes().vec();
  output_shape[static_cast<size_t>(along)] = pieces[static_cast<size_t>(group.rank().value)];
  Operation operation = begin({.name = "reduce_scatter",
                               .inputs = {&tensor, 1},
                               .op = op,
                               .dim = along,
                               .send = &pieces,
                               .output = output_shape},
                              group);
  if (!operation->sends()) return done(std::move(operation), {tensor.detach()});

  // Pieces are padded to the largest, so that all are equal on the wire.
  const int64_t largest = std::max<int64_t>(1, *std::ranges::max_element(pieces));
  const at::Tensor front = reducible(along == 0 ? tensor : tensor.movedim(along, 0), group);
  Sizes shape = front.sizes().vec();
  shape[0] = largest * group.size();
  const bool equal = shape[0] == front.size(0);
  at::Tensor input = equal ? front : at::zeros(shape, front.options());
  for (int64_t rank = 0, at = 0; !equal && rank < group.size(); ++rank) {
    const int64_t size = pieces[static_cast<size_t>(rank)];
    input.narrow(0, rank * largest, size).copy_(front.narrow(0, at, size));
    at += size;
  }
  shape[0] = largest;
  at::Tensor output = empty_buffer(shape, front.options(), group);
  const auto reduce = start_reduce_scatter(*operation, output, input, wire_reduce);
  const int64_t mine = pieces[static_cast<size_t>(group.rank().value)];
  auto* const raw = operation.get();
  operation->finish = [raw, reduce, output, along, mine, dtype = tensor.scalar_type(),
                       divisor = divisor_of(op, group)] {
    reduce();
    if (divisor != 1) output.div_(divisor);
    const at::Tensor piece = mine == output.size(0) ? output : output.narrow(0, 0, mine);
    const at::Tensor typed = piece.scalar_type() == dtype ? piece : piece.to(dtype);
    raw->results = {along == 0 ? typed : typed.movedim(0, along).contiguous()};
  };
  return Work(std::move(operation));
}

Work all_to_all(const at::Tensor& tensor, const Group& given) {
  const Group group = carrier(tensor, given, "all_to_all", Access::kRead);
  TSR_CHECK(tensor.dim() > 0, "all_to_all got a scalar; it exchanges rows of dimension 0");
  const Sizes shares = equal_sizes(tensor.size(0), group, "all_to_all");
  return all_to_all(tensor, shares, shares, group);
}

Work all_to_all(const at::Tensor& tensor, const Sizes& send, const Sizes& receive,
                const Group& given) {
  const Group group = carrier(tensor, given, "all_to_all", Access::kRead);
  TSR_CHECK(tensor.dim() > 0, "all_to_all got a scalar; it exchanges rows of dimension 0");
  check_sizes(send, tensor.size(0), group, "all_to_all, to send");
  check_sizes(receive, sum_of(receive), group, "all_to_all, to receive");
  Sizes shape = tensor.sizes().vec();
  shape[0] = sum_of(receive);
  Operation operation = begin({.name = "all_to_all",
                               .inputs = {&tensor, 1},
                               .send = &send,
                               .receive = &receive,
                               .output = shape},
                              group);
  if (!operation->sends()) return done(std::move(operation), {tensor.detach()});
  const at::Tensor dense = on_wire(tensor, group);
  const at::Tensor result = empty_buffer(shape, dense.options(), group);
  // Rows are sent as bytes.
  const int64_t row = dense.dim() == 1
                          ? dense.element_size()
                          : numel_of({shape.begin() + 1, shape.end()}) * dense.element_size();
  const auto in_bytes = [&](Sizes sizes) {
    for (int64_t& size : sizes) size *= row;
    return sizes;
  };
  Sizes receive_bytes = in_bytes(receive);
  Sizes send_bytes = in_bytes(send);
  at::Tensor output = operation->as_bytes(result);
  at::Tensor input = operation->as_bytes(dense);
  operation->start(
      [&] { return operation->engine->alltoall_base(output, input, receive_bytes, send_bytes); });
  operation->kept = {dense};
  return done(std::move(operation), {result});
}

ListWork gather(const at::Tensor& tensor, Member root, const Group& given) {
  const Group group = carrier(tensor, given, "gather", Access::kRead);
  const GroupRank dst = root.in(group);
  Operation operation = begin({.name = "gather", .inputs = {&tensor, 1}, .root = dst}, group);
  if (!operation->sends()) return done(std::move(operation), {tensor.detach()});
  const at::Tensor dense = on_wire(tensor, group);
  Tensors results;
  std::vector<Tensors> outputs;
  if (group.rank() == dst) {
    outputs.emplace_back();
    for (int64_t rank = 0; rank < group.size(); ++rank) {
      results.push_back(at::empty_like(dense));
      outputs[0].push_back(operation->as_bytes(results.back()));
    }
  }
  c10d::GatherOptions options;
  options.rootRank = static_cast<int>(dst.value);
  Tensors inputs{operation->as_bytes(dense)};
  operation->start([&] { return operation->engine->gather(outputs, inputs, options); });
  operation->kept = {dense};
  return done(std::move(operation), std::move(results));
}

Work scatter(const at::Tensor& tensor, std::span<const at::Tensor> tensors, Member root,
             const Group& given) {
  const Group group = carrier(tensor, given, "scatter", Access::kWrite);
  const GroupRank src = root.in(group);
  std::vector<Tensors> inputs;
  if (group.rank() == src) {
    TSR_CHECK(static_cast<int64_t>(tensors.size()) == group.size(), "scatter got ", tensors.size(),
              " tensors in group ", group.name(), " of ", group.size(), "; pass one per rank");
    (void)carrier(tensors, given, "scatter", Access::kRead);
    inputs.emplace_back();
    for (const at::Tensor& piece : tensors) {
      TSR_CHECK(piece.sizes() == tensor.sizes() && piece.scalar_type() == tensor.scalar_type(),
                "scatter got a piece of shape ", piece.sizes(), " and dtype ", piece.scalar_type(),
                " for a tensor of shape ", tensor.sizes(), " and dtype ", tensor.scalar_type());
      inputs[0].push_back(bytes_of(on_wire(piece, group)));
    }
  }
  Operation operation = begin({.name = "scatter", .inputs = {&tensor, 1}, .root = src}, group);
  if (!operation->sends()) {
    tensor.detach().copy_(tensors[0]);
    return done(std::move(operation), {tensor});
  }
  const at::Tensor dense = at::empty(tensor.sizes(), wire_options(tensor, group));
  c10d::ScatterOptions options;
  options.rootRank = static_cast<int>(src.value);
  Tensors outputs{operation->as_bytes(dense)};
  operation->start([&] { return operation->engine->scatter(outputs, inputs, options); });
  operation->finish = [tensor, dense] { tensor.detach().copy_(dense); };
  return done(std::move(operation), {tensor});
}

void barrier(const Group& group) {
  Operation operation = begin({.name = "barrier"}, group);
  operation->blocks_host = true;
  c10d::BarrierOptions options;
  // Otherwise it guesses the GPU by the rank, before the first operation.
  if (group.backend() == Backend::kNccl) options.device_ids = {group.device().index()};
  if (operation->sends()) operation->start([&] { return operation->engine->barrier(options); });
  (void)Work(std::move(operation)).wait();
}

void agree(bool ok, const Group& group, std::string_view what) {
  const at::Tensor failed = at::full({1}, ok ? 0 : 1, at::kInt);  // No GPU is waited for.
  const int count = all_reduce(failed, group).wait().item<int>();
  TSR_CHECK(count == 0, what, " does not hold on ", count, " of the ", group.size(),
            " ranks of group ", group.name(),
            ok ? "; it holds on this rank" : "; this rank is one of them");
}

void check_together(const WorldHandle& world, std::string_view what,
                    const std::function<void()>& check) {
  check_together(world.group(), what, check);
}

}  // namespace tessera
