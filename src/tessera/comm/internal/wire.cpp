#include "tessera/comm/internal/wire.h"

#include <ATen/ATen.h>

#include <functional>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera {

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

at::Tensor reducible(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  if (tensor.scalar_type() == at::kBool) return dense.to(at::kByte);
  if (tensor.scalar_type() == at::kShort) return dense.to(at::kInt);
  return dense;
}

int64_t divisor_of(ReduceOp op, const Group& group) {
  return op == ReduceOp::kAvg && group.backend() == Backend::kGloo ? group.size() : 1;
}

int64_t normal_dim(int64_t dim, const at::Tensor& tensor, const char* name) {
  TSR_CHECK(-tensor.dim() <= dim && dim < tensor.dim(), name, " along dimension ", dim,
            " of a tensor of ", tensor.dim(), " dimensions; choose one that it has");
  return dim < 0 ? dim + tensor.dim() : dim;
}

Sizes equal_sizes(int64_t total, const Group& group, const char* name) {
  TSR_CHECK(total % group.size() == 0, name, " cannot cut ", total, " into ", group.size(),
            " equal pieces; give sizes, or pad to a multiple");
  return Sizes(static_cast<size_t>(group.size()), total / group.size());
}

int64_t numel_of(const Sizes& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies{});
}

void start_all_gather(PendingOperation& operation, const at::Tensor& all, const at::Tensor& mine) {
  operation.kept = {mine};
  if (mine.numel() == 0) return;
  at::Tensor output = bytes_of(all);
  at::Tensor input = bytes_of(mine);
  operation.start([&] { return operation.engine->_allgather_base(output, input); });
}

}  // namespace tessera
