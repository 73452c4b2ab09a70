#include "tessera/comm/internal/wire.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/comm/buffers.h"

namespace tessera::comm::detail {
namespace {

constexpr int kExchangeTag = kLargestTag + 1;

// Gloo can only read CPU memory.
bool goes_by_cpu(const at::Tensor& tensor, const Group& group) {
  return group.backend() == Backend::kGloo && !tensor.is_cpu();
}

// Other ways through Gloo than its own; ranks that share memory do not use it.
bool goes_over_gloo(const PendingOperation& operation) {
  return operation.group.backend() == Backend::kGloo && !operation.communicator->partly_by_memory();
}

// Gloo gathers into its own buffer and copies from there, which takes longer than the transfer
// itself. For small gathers the number of messages matters more.
bool goes_directly(const at::Tensor& all, const PendingOperation& operation) {
  constexpr size_t kFew = 1 << 20;
  return goes_over_gloo(operation) && all.nbytes() >= kFew;
}

// Every rank sends to every other, starting with its neighbours, so that no rank is overloaded.
void exchange(PendingOperation& operation, const std::function<at::Tensor(int to)>& outgoing,
              const std::function<at::Tensor(int from)>& incoming) {
  const auto size = static_cast<int>(operation.group.size());
  const auto rank = static_cast<int>(operation.group.rank().value);
  operation.handles_are_p2p = true;
  for (int distance = 1; distance < size; ++distance) {
    const int from = (rank + size - distance) % size;
    Tensors row{incoming(from)};
    operation.start([&] { return operation.engine->recv(row, from, kExchangeTag); });
  }
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size;
    Tensors row{outgoing(to)};
    operation.start([&] { return operation.engine->send(row, to, kExchangeTag); });
  }
}

// The dtypes that engines can reduce. They refuse others too late, and with their own messages.
void check_reducible(ReduceOp op, const at::Tensor& tensor, const Group& group) {
  constexpr std::array kDtypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
                               at::kInt,   at::kShort,  at::kChar, at::kByte,     at::kBool};
  const at::ScalarType dtype = tensor.scalar_type();
  TSR_CHECK(std::ranges::find(kDtypes, dtype) != kDtypes.end(), "cannot reduce dtype ", dtype,
            "; convert the tensor to ",
            at::isComplexType(dtype)    ? "real numbers with view_as_real()"
            : at::isFloatingType(dtype) ? "bfloat16 or a wider dtype"
                                        : "int64",
            " first");
  TSR_CHECK(op != ReduceOp::kAvg || at::isFloatingType(dtype), "cannot average dtype ", dtype,
            "; use a floating-point tensor, or sum");
  const bool bits = op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor;
  TSR_CHECK(!bits || !at::isFloatingType(dtype), "cannot compute ", to_string(op), " of dtype ",
            dtype, "; use an integer tensor");
  const bool is_sent = group.size() > 1;
  TSR_CHECK(!bits || !is_sent || group.backend() != Backend::kNccl, "NCCL cannot compute ",
            to_string(op), "; reduce a tensor on the CPU");
}

at::Tensor& combine(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                    const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return at::add_out(out, a, b);
    case c10d::ReduceOp::PRODUCT:
      return at::mul_out(out, a, b);
    case c10d::ReduceOp::MIN:
      return at::minimum_out(out, a, b);
    case c10d::ReduceOp::MAX:
      return at::maximum_out(out, a, b);
    case c10d::ReduceOp::BAND:
      return at::bitwise_and_out(out, a, b);
    case c10d::ReduceOp::BOR:
      return at::bitwise_or_out(out, a, b);
    case c10d::ReduceOp::BXOR:
      return at::bitwise_xor_out(out, a, b);
    default:
      TSR_ASSERT(false, "unknown Gloo reduction");
      return out;
  }
}

}  // namespace

c10d::ReduceOp wire_op(ReduceOp op, const at::Tensor& tensor, const Group& group) {
  check_reducible(op, tensor, group);
  const bool is_bool = tensor.scalar_type() == at::kBool;
  switch (op) {
    case ReduceOp::kSum:
      return is_bool ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    case ReduceOp::kAvg:
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
  TSR_ASSERT(false, "unknown ReduceOp");
  return {};
}

at::TensorOptions wire_options(const at::Tensor& tensor, const Group& group) {
  return goes_by_cpu(tensor, group) ? tensor.options().device(at::kCPU) : tensor.options();
}

at::Tensor on_wire(const at::Tensor& tensor, const Group& group) {
  const bool is_plain = !tensor.requires_grad() && !tensor.is_conj() && !tensor.is_neg() &&
                        tensor.is_contiguous() && !goes_by_cpu(tensor, group);
  if (is_plain) return tensor;  // Views cost more than a small operation.
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg();
  if (goes_by_cpu(tensor, group)) return plain.cpu().contiguous();
  if (plain.is_contiguous()) return plain;
  return empty_buffer(plain.sizes(), plain.options(), group).copy_(plain);
}

at::Tensor reducible(const at::Tensor& tensor, const Group& group) {
  const at::Tensor dense = on_wire(tensor, group);
  if (tensor.scalar_type() == at::kBool) return dense.to(at::kByte);
  if (tensor.scalar_type() == at::kShort) return dense.to(at::kInt);
  return dense;
}

int64_t divisor_of(ReduceOp op, const Group& group) {
  return op == ReduceOp::kAvg && group.backend() == Backend::kGloo ? group.size() : 1;
}

int64_t normal_dim(int64_t dim, const at::Tensor& tensor, const char* name) {
  TSR_CHECK(-tensor.dim() <= dim && dim < tensor.dim(), name, " got dim ", dim,
            ", but the tensor has ", tensor.dim(), " dimensions");
  return dim < 0 ? dim + tensor.dim() : dim;
}

Sizes equal_sizes(int64_t total, const Group& group, const char* name) {
  TSR_CHECK(total % group.size() == 0, name, " cannot split ", total, " into ", group.size(),
            " equal pieces; pass sizes, or pad to a multiple");
  return Sizes(static_cast<size_t>(group.size()), total / group.size());
}

int64_t numel_of(const Sizes& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies{});
}

void start_all_gather(PendingOperation& operation, const at::Tensor& all, const at::Tensor& mine) {
  operation.kept = {mine};
  if (mine.numel() == 0) return;
  at::Tensor output = operation.as_bytes(all);
  at::Tensor input = operation.as_bytes(mine);
  if (goes_directly(output, operation)) {
    const Tensors places = output.chunk(operation.group.size());
    const auto place = [&](int64_t rank) { return places[static_cast<size_t>(rank)]; };
    exchange(operation, [&](int) { return input; }, place);
    place(operation.group.rank().value).copy_(input);
    return;
  }
  operation.start([&] { return operation.engine->_allgather_base(output, input); });
}

// Gloo would all-reduce; exchanging the pieces sends half as much.
std::function<void()> start_reduce_scatter(PendingOperation& operation, at::Tensor output,
                                           at::Tensor input, const c10d::ReduceOp& op) {
  operation.kept = {input};
  if (output.numel() == 0) return [] {};
  if (!goes_over_gloo(operation)) {
    c10d::ReduceScatterOptions options;
    options.reduceOp = op;
    operation.start([&] { return operation.engine->_reduce_scatter_base(output, input, options); });
    return [] {};
  }
  const auto rank = static_cast<size_t>(operation.group.rank().value);
  const Tensors out = input.chunk(operation.group.size());
  Tensors pieces;  // This rank's piece of every rank's input.
  for (size_t from = 0; from < out.size(); ++from) {
    pieces.push_back(from == rank ? out[rank] : at::empty_like(out[rank]));
  }
  exchange(
      operation, [&](int to) { return operation.as_bytes(out[static_cast<size_t>(to)]); },
      [&](int from) { return operation.as_bytes(pieces[static_cast<size_t>(from)]); });
  return [output, pieces, op]() mutable {
    combine(output, pieces[0], pieces[1], op);
    for (size_t i = 2; i < pieces.size(); ++i) combine(output, output, pieces[i], op);
  };
}

}  // namespace tessera::comm::detail
