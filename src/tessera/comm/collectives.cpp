#include "tessera/comm/collectives.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "tessera/base/check.h"
#include "tessera/comm/internal/operation.h"

namespace tessera {
namespace {

using Operation = std::unique_ptr<PendingOperation>;
using Tensors = std::vector<at::Tensor>;

// An operation on the group, with its number; nothing is sent in a group of one.
Operation begin(const char* name, const Group& group) {
  (void)group.rank();  // Members only.
  auto operation = std::make_unique<PendingOperation>();
  operation->name = name;
  operation->group = group.name();
  operation->timeout = group.state().timeout();
  if (group.size() == 1) return operation;
  operation->engine = &group.state().connect();
  operation->communicator = group.state().communicator();
  operation->sequence = operation->communicator->next_sequence();
  return operation;
}

bool sends(const Operation& operation) {
  return operation->communicator != nullptr;
}

Work done(Operation operation, Tensors results) {
  operation->results = std::move(results);
  return Work(std::move(operation));
}

void check_tensor(const at::Tensor& tensor, const Group& group, const char* name) {
  TSR_CHECK(tensor.defined(), name, " got an undefined tensor; give one that holds data");
  TSR_CHECK(tensor.layout() == at::kStrided, name, " got a tensor of layout ", tensor.layout(),
            "; make it dense first");
  const bool fits =
      group.backend() == Backend::kFake || (group.backend() == Backend::kNccl) == tensor.is_cuda();
  TSR_CHECK(fits || group.size() == 1, name, " got a tensor on ", tensor.device().str(),
            ", but group ", group.name(), " uses ", to_string(group.backend()),
            "; move the tensor, or use ", tensor.is_cuda() ? "nccl" : "gloo");
}

int root_of(GroupRank rank, const Group& group) {
  (void)group.global_rank(rank);  // Checks that it exists.
  return static_cast<int>(rank.value);
}

// The tensor as bytes: engines know few dtypes, but moving needs none of them.
at::Tensor bytes_of(const at::Tensor& contiguous) {
  return contiguous.detach().reshape({-1}).view(at::kByte);
}

// ---- Reductions
// -----------------------------------------------------------------------------------------------------

c10d::ReduceOp wire_op(ReduceOp op, const at::Tensor& tensor, const Group& group) {
  const bool is_bool = tensor.scalar_type() == at::kBool;
  switch (op) {
    case ReduceOp::kSum:
      return is_bool ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    case ReduceOp::kAvg:
      TSR_CHECK(tensor.is_floating_point(), "an average of ", tensor.scalar_type(),
                " was asked for; averages are of floating-point tensors, sum the others");
      return group.backend() == Backend::kNccl ? c10d::ReduceOp::AVG : c10d::ReduceOp::SUM;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    case ReduceOp::kProduct:
      return is_bool ? c10d::ReduceOp::MIN : c10d::ReduceOp::PRODUCT;
    case ReduceOp::kBitAnd:
      return c10d::ReduceOp::BAND;
    case ReduceOp::kBitOr:
      return c10d::ReduceOp::BOR;
    case ReduceOp::kBitXor:
      return c10d::ReduceOp::BXOR;
  }
  TSR_ASSERT(false, "a value of ReduceOp has no meaning");
  return {};
}

// Dense and of a dtype that engines add: bool travels as bytes, short integers as longer ones.
at::Tensor reducible(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  if (tensor.scalar_type() == at::kBool) return dense.to(at::kByte);
  if (tensor.scalar_type() == at::kShort) return dense.to(at::kInt);
  return dense;
}

// Gloo has no average: the sum is divided when it is there.
int64_t divisor_of(ReduceOp op, const Group& group) {
  return op == ReduceOp::kAvg && group.backend() == Backend::kGloo ? group.size() : 1;
}

// ---- Shapes
// ---------------------------------------------------------------------------------------------------------

int64_t normal_dim(int64_t dim, const at::Tensor& tensor, const char* name) {
  TSR_CHECK(-tensor.dim() <= dim && dim < tensor.dim(), name, " along dimension ", dim,
            " of a tensor of ", tensor.dim(), " dimensions; choose one that it has");
  return dim < 0 ? dim + tensor.dim() : dim;
}

int64_t sum_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

void check_sizes(const Sizes& sizes, int64_t total, const Group& group, const char* what) {
  TSR_CHECK(static_cast<int64_t>(sizes.size()) == group.size(), sizes.size(),
            " sizes were given for ", what, " in group ", group.name(), " of ", group.size(),
            " ranks; give one per rank");
  for (const int64_t size : sizes) {
    TSR_CHECK(size >= 0, "size ", size, " for ", what, " is negative; sizes start at 0");
  }
  TSR_CHECK(sum_of(sizes) == total, "the sizes ", join(sizes, "+"), " for ", what, " add up to ",
            sum_of(sizes), ", not to ", total);
}

Sizes equal_sizes(int64_t total, const Group& group, const char* name) {
  TSR_CHECK(total % group.size() == 0, name, " cannot cut ", total, " into ", group.size(),
            " equal pieces; give sizes, or pad to a multiple");
  return Sizes(static_cast<size_t>(group.size()), total / group.size());
}

// Every rank's shape, in group-rank order. Waits.
std::vector<Sizes> exchange_shapes(const at::Tensor& tensor, const Group& group) {
  constexpr int64_t kMostDims = 16;
  TSR_CHECK(tensor.dim() < kMostDims, "a tensor of ", tensor.dim(),
            " dimensions is gathered; fewer than ", kMostDims, " are supported");
  at::Tensor mine = at::zeros({1, kMostDims}, at::TensorOptions(at::kLong).device(tensor.device()));
  mine[0][0] = tensor.dim();
  for (int64_t i = 0; i < tensor.dim(); ++i) mine[0][i + 1] = tensor.size(i);
  const at::Tensor all = all_gather(mine, group).wait().cpu();
  std::vector<Sizes> shapes;
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    const int64_t dims = all[rank][0].item<int64_t>();
    Sizes shape;
    for (int64_t i = 0; i < dims; ++i) shape.push_back(all[rank][i + 1].item<int64_t>());
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

int64_t numel_of(const Sizes& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies{});
}

// Every rank's `mine`, one after the other, into `all`.
void start_all_gather(PendingOperation& operation, const at::Tensor& all, const at::Tensor& mine) {
  operation.kept = {mine};
  if (mine.numel() == 0) return;
  at::Tensor output = bytes_of(all);
  at::Tensor input = bytes_of(mine);
  operation.handles.push_back(operation.engine->_allgather_base(output, input));
}

// What the engine left in `wire` becomes the tensor's; `divisor` is 1 unless the sum is an average.
void write_back(const at::Tensor& wire, const at::Tensor& tensor, int64_t divisor) {
  const at::NoGradGuard no_grad;
  if (divisor != 1) wire.div_(divisor);
  if (wire.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(wire);
}

}  // namespace

Work all_reduce(const at::Tensor& tensor, const Group& group, ReduceOp op) {
  check_tensor(tensor, group, "all_reduce");
  const auto wire_reduce = wire_op(op, tensor, group);
  Operation operation = begin("all_reduce", group);
  if (!sends(operation)) return done(std::move(operation), {tensor});
  at::Tensor wire = reducible(tensor);
  c10d::AllreduceOptions options;
  options.reduceOp = wire_reduce;
  Tensors inputs{wire};
  operation->handles.push_back(operation->engine->allreduce(inputs, options));
  operation->finish = [tensor, wire, divisor = divisor_of(op, group)] {
    write_back(wire, tensor, divisor);
  };
  return done(std::move(operation), {tensor});
}

Work reduce(const at::Tensor& tensor, GroupRank dst, const Group& group, ReduceOp op) {
  check_tensor(tensor, group, "reduce");
  const auto wire_reduce = wire_op(op, tensor, group);
  const int root = root_of(dst, group);
  Operation operation = begin("reduce", group);
  if (!sends(operation)) return done(std::move(operation), {tensor});
  at::Tensor wire = reducible(tensor);
  if (group.rank() != dst && wire.data_ptr() == tensor.data_ptr()) wire = wire.clone();
  c10d::ReduceOptions options;
  options.reduceOp = wire_reduce;
  options.rootRank = root;
  Tensors inputs{wire};
  operation->handles.push_back(operation->engine->reduce(inputs, options));
  if (group.rank() == dst) {
    operation->finish = [tensor, wire, divisor = divisor_of(op, group)] {
      write_back(wire, tensor, divisor);
    };
  } else {
    operation->kept = {wire};
  }
  return done(std::move(operation), {tensor});
}

Work broadcast(const at::Tensor& tensor, GroupRank src, const Group& group) {
  check_tensor(tensor, group, "broadcast");
  const int root = root_of(src, group);
  Operation operation = begin("broadcast", group);
  if (!sends(operation) || tensor.numel() == 0) {
    operation->communicator = nullptr;
    return done(std::move(operation), {tensor});
  }
  const at::Tensor dense = tensor.detach().contiguous();
  c10d::BroadcastOptions options;
  options.rootRank = root;
  Tensors inputs{bytes_of(dense)};
  operation->handles.push_back(operation->engine->broadcast(inputs, options));
  operation->finish = [tensor, dense] {
    if (dense.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(dense);
  };
  return done(std::move(operation), {tensor});
}

Work all_gather(const at::Tensor& tensor, const Group& group, int64_t dim) {
  check_tensor(tensor, group, "all_gather");
  const int64_t along = normal_dim(dim, tensor, "all_gather");
  Operation operation = begin("all_gather", group);
  if (!sends(operation)) return done(std::move(operation), {tensor.detach()});
  // Joined along a new outermost dimension on the wire; another one is a permutation afterwards.
  const at::Tensor dense = tensor.detach().contiguous();
  Sizes shape{group.size()};
  shape.insert(shape.end(), dense.sizes().begin(), dense.sizes().end());
  const at::Tensor all = at::empty(shape, dense.options());
  start_all_gather(*operation, all, dense);
  auto* const raw = operation.get();
  operation->finish = [raw, all, along] {
    const at::Tensor joined = all.movedim(0, along);  // …, rank, dim, …
    raw->results = {joined.flatten(along, along + 1)};
  };
  return Work(std::move(operation));
}

Work all_gather_uneven(const at::Tensor& tensor, const Group& group) {
  check_tensor(tensor, group, "all_gather");
  if (group.size() == 1) return done(begin("all_gather", group), {tensor.detach()});
  const std::vector<Sizes> shapes = exchange_shapes(tensor, group);
  int64_t largest = 0;
  for (const Sizes& shape : shapes) largest = std::max(largest, numel_of(shape));
  // Engines gather equal pieces alone, so each is padded to the largest.
  at::Tensor padded = at::zeros({std::max<int64_t>(1, largest)}, tensor.options());
  padded.narrow(0, 0, tensor.numel()).copy_(tensor.detach().reshape({-1}));
  Operation operation = begin("all_gather", group);
  const at::Tensor all = at::empty({group.size(), padded.numel()}, padded.options());
  start_all_gather(*operation, all, padded);
  auto* const raw = operation.get();
  operation->finish = [raw, all, shapes] {
    for (size_t rank = 0; rank < shapes.size(); ++rank) {
      const at::Tensor row = all[static_cast<int64_t>(rank)];
      raw->results.push_back(row.narrow(0, 0, numel_of(shapes[rank])).reshape(shapes[rank]));
    }
  };
  return Work(std::move(operation));
}

Work reduce_scatter(const at::Tensor& tensor, const Group& group, ReduceOp op, int64_t dim,
                    const std::optional<Sizes>& sizes) {
  check_tensor(tensor, group, "reduce_scatter");
  const int64_t along = normal_dim(dim, tensor, "reduce_scatter");
  const auto wire_reduce = wire_op(op, tensor, group);
  const Sizes pieces = sizes ? *sizes : equal_sizes(tensor.size(along), group, "reduce_scatter");
  check_sizes(pieces, tensor.size(along), group, "reduce_scatter");
  Operation operation = begin("reduce_scatter", group);
  if (!sends(operation)) return done(std::move(operation), {tensor.detach()});

  // Pieces are padded to the largest, so that all are equal on the wire.
  const int64_t largest = std::max<int64_t>(1, *std::ranges::max_element(pieces));
  const at::Tensor front = reducible(tensor.movedim(along, 0));
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
  at::Tensor output = at::empty(shape, front.options());
  c10d::ReduceScatterOptions options;
  options.reduceOp = wire_reduce;
  if (output.numel() > 0) {
    operation->handles.push_back(operation->engine->_reduce_scatter_base(output, input, options));
  }
  const int64_t mine = pieces[static_cast<size_t>(group.rank().value)];
  auto* const raw = operation.get();
  operation->kept = {input};
  operation->finish = [raw, output, along, mine, dtype = tensor.scalar_type(),
                       divisor = divisor_of(op, group)] {
    if (divisor != 1) output.div_(divisor);
    raw->results = {output.narrow(0, 0, mine).to(dtype).movedim(0, along).contiguous()};
  };
  return Work(std::move(operation));
}

Work all_to_all(const at::Tensor& tensor, const Group& group) {
  check_tensor(tensor, group, "all_to_all");
  TSR_CHECK(tensor.dim() > 0, "all_to_all got a scalar; it exchanges rows of dimension 0");
  const Sizes shares = equal_sizes(tensor.size(0), group, "all_to_all");
  return all_to_all(tensor, shares, shares, group);
}

Work all_to_all(const at::Tensor& tensor, const Sizes& send, const Sizes& receive,
                const Group& group) {
  check_tensor(tensor, group, "all_to_all");
  TSR_CHECK(tensor.dim() > 0, "all_to_all got a scalar; it exchanges rows of dimension 0");
  check_sizes(send, tensor.size(0), group, "all_to_all, to send");
  check_sizes(receive, sum_of(receive), group, "all_to_all, to receive");
  Operation operation = begin("all_to_all", group);
  if (!sends(operation)) return done(std::move(operation), {tensor.detach()});
  const at::Tensor dense = tensor.detach().contiguous();
  Sizes shape = dense.sizes().vec();
  shape[0] = sum_of(receive);
  const at::Tensor result = at::empty(shape, dense.options());
  // On the wire a row is its bytes.
  const int64_t row = dense.dim() == 1
                          ? dense.element_size()
                          : numel_of({shape.begin() + 1, shape.end()}) * dense.element_size();
  const auto in_bytes = [&](Sizes sizes) {
    for (int64_t& size : sizes) size *= row;
    return sizes;
  };
  Sizes receive_bytes = in_bytes(receive);
  Sizes send_bytes = in_bytes(send);
  at::Tensor output = bytes_of(result);
  at::Tensor input = bytes_of(dense);
  operation->handles.push_back(
      operation->engine->alltoall_base(output, input, receive_bytes, send_bytes));
  operation->kept = {dense};
  return done(std::move(operation), {result});
}

Work gather(const at::Tensor& tensor, GroupRank dst, const Group& group) {
  check_tensor(tensor, group, "gather");
  const int root = root_of(dst, group);
  Operation operation = begin("gather", group);
  if (!sends(operation)) return done(std::move(operation), {tensor.detach()});
  const at::Tensor dense = tensor.detach().contiguous();
  Tensors results;
  std::vector<Tensors> outputs;
  if (group.rank() == dst) {
    outputs.emplace_back();
    for (int64_t rank = 0; rank < group.size(); ++rank) {
      results.push_back(at::empty_like(dense));
      outputs[0].push_back(bytes_of(results.back()));
    }
  }
  c10d::GatherOptions options;
  options.rootRank = root;
  Tensors inputs{bytes_of(dense)};
  operation->handles.push_back(operation->engine->gather(outputs, inputs, options));
  operation->kept = {dense};
  return done(std::move(operation), std::move(results));
}

Work scatter(const at::Tensor& tensor, std::span<const at::Tensor> tensors, GroupRank src,
             const Group& group) {
  check_tensor(tensor, group, "scatter");
  const int root = root_of(src, group);
  std::vector<Tensors> inputs;
  if (group.rank() == src) {
    TSR_CHECK(static_cast<int64_t>(tensors.size()) == group.size(), "scatter got ", tensors.size(),
              " tensors in group ", group.name(), " of ", group.size(), "; give one per rank");
    inputs.emplace_back();
    for (const at::Tensor& piece : tensors) {
      TSR_CHECK(piece.sizes() == tensor.sizes() && piece.scalar_type() == tensor.scalar_type(),
                "scatter got a piece of shape ", piece.sizes(), " and dtype ", piece.scalar_type(),
                " for a tensor of shape ", tensor.sizes(), " and dtype ", tensor.scalar_type());
      inputs[0].push_back(bytes_of(piece.contiguous()));
    }
  }
  Operation operation = begin("scatter", group);
  if (!sends(operation)) {
    tensor.detach().copy_(tensors[0]);
    return done(std::move(operation), {tensor});
  }
  const at::Tensor dense = at::empty_like(tensor.detach(), at::MemoryFormat::Contiguous);
  c10d::ScatterOptions options;
  options.rootRank = root;
  Tensors outputs{bytes_of(dense)};
  operation->handles.push_back(operation->engine->scatter(outputs, inputs, options));
  operation->finish = [tensor, dense] { tensor.detach().copy_(dense); };
  return done(std::move(operation), {tensor});
}

Work send(const at::Tensor& tensor, GroupRank dst, const Group& group, int tag) {
  at::Tensor copy = tensor;
  const P2p one{P2p::Kind::kSend, &copy, dst, tag};
  return batch_send_recv({&one, 1}, group);
}

Work recv(const at::Tensor& tensor, GroupRank src, const Group& group, int tag) {
  at::Tensor copy = tensor;
  const P2p one{P2p::Kind::kRecv, &copy, src, tag};
  return batch_send_recv({&one, 1}, group);
}

Work batch_send_recv(std::span<const P2p> operations, const Group& group) {
  for (const P2p& one : operations) {
    check_tensor(*one.tensor, group, "send or recv");
    (void)root_of(one.peer, group);
    TSR_CHECK(one.peer != group.rank(), "rank ", one.peer, " of group ", group.name(),
              " would send to itself; copy the tensor instead");
  }
  Operation operation = begin("send/recv", group);
  Tensors results;
  std::vector<std::pair<at::Tensor, at::Tensor>> copy_back;
  const bool coalesce = group.backend() == Backend::kNccl && operations.size() > 1;
  if (coalesce) operation->engine->startCoalescing();
  for (const P2p& one : operations) {
    const at::Tensor dense = one.tensor->detach().contiguous();
    Tensors wire{bytes_of(dense)};
    const int peer = static_cast<int>(one.peer.value);
    const bool is_send = one.kind == P2p::Kind::kSend;
    auto handle = is_send ? operation->engine->send(wire, peer, one.tag)
                          : operation->engine->recv(wire, peer, one.tag);
    if (!coalesce) operation->handles.push_back(std::move(handle));
    operation->kept.push_back(dense);
    results.push_back(*one.tensor);
    if (!is_send && dense.data_ptr() != one.tensor->data_ptr()) {
      copy_back.emplace_back(*one.tensor, dense);
    }
  }
  if (coalesce) operation->handles.push_back(operation->engine->endCoalescing());
  operation->finish = [copy_back] {
    for (const auto& [to, from] : copy_back) to.detach().copy_(from);
  };
  return done(std::move(operation), std::move(results));
}

Work all_reduce_coalesced(std::span<const at::Tensor> tensors, const Group& group, ReduceOp op) {
  TSR_CHECK(!tensors.empty(), "all_reduce_coalesced got no tensors; give at least 1");
  Tensors flat;
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor, group, "all_reduce_coalesced");
    TSR_CHECK(tensor.scalar_type() == tensors[0].scalar_type(), "all_reduce_coalesced got dtypes ",
              tensors[0].scalar_type(), " and ", tensor.scalar_type(),
              "; start one operation per dtype");
    flat.push_back(tensor.detach().reshape({-1}));
  }
  Tensors results(tensors.begin(), tensors.end());
  if (group.size() == 1) return done(begin("all_reduce_coalesced", group), results);
  const at::Tensor joined = at::cat(flat);
  Operation operation = begin("all_reduce_coalesced", group);
  at::Tensor wire = reducible(joined);
  c10d::AllreduceOptions options;
  options.reduceOp = wire_op(op, joined, group);
  Tensors inputs{wire};
  operation->handles.push_back(operation->engine->allreduce(inputs, options));
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

Work all_gather_coalesced(std::span<const at::Tensor> tensors, const Group& group, int64_t dim) {
  TSR_CHECK(!tensors.empty(), "all_gather_coalesced got no tensors; give at least 1");
  // All tensors as one row of bytes: one message per pair of ranks.
  Tensors rows;
  std::vector<int64_t> dims;
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor, group, "all_gather_coalesced");
    dims.push_back(normal_dim(dim, tensor, "all_gather_coalesced"));
    rows.push_back(bytes_of(tensor.detach().contiguous()));
  }
  Operation operation = begin("all_gather_coalesced", group);
  if (!sends(operation)) return done(std::move(operation), {tensors.begin(), tensors.end()});
  const at::Tensor input = at::cat(rows);
  const at::Tensor all = at::empty({group.size() * input.numel()}, input.options());
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

Work reduce_scatter_coalesced(std::span<const at::Tensor> tensors, const Group& group,
                              ReduceOp op) {
  TSR_CHECK(!tensors.empty(), "reduce_scatter_coalesced got no tensors; give at least 1");
  // Row r holds the pieces of rank r of all tensors.
  Tensors rows;
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor, group, "reduce_scatter_coalesced");
    TSR_CHECK(tensor.scalar_type() == tensors[0].scalar_type() && tensor.dim() > 0,
              "reduce_scatter_coalesced got dtypes ", tensors[0].scalar_type(), " and ",
              tensor.scalar_type(), "; start one operation per dtype, and give no scalars");
    (void)equal_sizes(tensor.size(0), group, "reduce_scatter_coalesced");
    rows.push_back(tensor.detach().reshape({group.size(), -1}));
  }
  Operation operation = begin("reduce_scatter_coalesced", group);
  if (!sends(operation)) return done(std::move(operation), {tensors.begin(), tensors.end()});
  const at::Tensor joined = at::cat(rows, 1);
  at::Tensor input = reducible(joined).view({-1});
  at::Tensor output = at::empty({joined.size(1)}, input.options());
  c10d::ReduceScatterOptions options;
  options.reduceOp = wire_op(op, joined, group);
  operation->handles.push_back(operation->engine->_reduce_scatter_base(output, input, options));
  auto* const raw = operation.get();
  operation->kept = {input};
  const Tensors originals(tensors.begin(), tensors.end());
  operation->finish = [raw, output, originals, divisor = divisor_of(op, group),
                       size = group.size()] {
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

void barrier(const Group& group) {
  Operation operation = begin("barrier", group);
  if (sends(operation)) operation->handles.push_back(operation->engine->barrier());
  (void)Work(std::move(operation)).wait();
}

void agree(bool ok, const Group& group, std::string_view what) {
  const auto device = group.backend() == Backend::kNccl ? at::kCUDA : at::kCPU;
  const at::Tensor failed = at::full({1}, ok ? 0 : 1, at::TensorOptions(at::kInt).device(device));
  const int count = all_reduce(failed, group).wait().item<int>();
  TSR_CHECK(count == 0, what, " does not hold on ", count, " of the ", group.size(),
            " ranks of group ", group.name(),
            ok ? " (it does on this rank)" : " (nor on this rank)");
}

}  // namespace tessera
