#include "tessera/comm/shm/tensors.h"

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "tessera/base/check.h"

namespace tessera::comm::detail::shm {
namespace {

Number number_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Number::kFloat;
    case at::kDouble:
      return Number::kDouble;
    case at::kHalf:
      return Number::kHalf;
    case at::kBFloat16:
      return Number::kBfloat16;
    case at::kLong:
      return Number::kInt64;
    case at::kInt:
      return Number::kInt32;
    case at::kChar:
      return Number::kInt8;
    case at::kByte:
      return Number::kUint8;
    default:
      TSR_ASSERT(false, "no reduction of this dtype");
      return Number::kUint8;
  }
}

Reduction reduction_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return Reduction::kSum;
    case c10d::ReduceOp::PRODUCT:
      return Reduction::kProduct;
    case c10d::ReduceOp::MIN:
      return Reduction::kMin;
    case c10d::ReduceOp::MAX:
      return Reduction::kMax;
    case c10d::ReduceOp::BAND:
      return Reduction::kBitAnd;
    case c10d::ReduceOp::BOR:
      return Reduction::kBitOr;
    case c10d::ReduceOp::BXOR:
      return Reduction::kBitXor;
    default:
      TSR_ASSERT(false, "unknown reduction");
      return Reduction::kSum;
  }
}

}  // namespace

ReduceCall call_of(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  return {.number = number_of(tensor),
          .reduction = reduction_of(op),
          .count = static_cast<size_t>(tensor.numel())};
}

}  // namespace tessera::comm::detail::shm
