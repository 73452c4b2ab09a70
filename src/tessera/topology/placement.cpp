#include "tessera/topology/placement.h"

#include "tessera/base/text.h"

namespace tessera {
const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAvg:
      return "avg";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kBitAnd:
      return "band";
    case ReduceOp::kBitOr:
      return "bor";
    case ReduceOp::kBitXor:
      return "bxor";
  }
  return "?";
}

namespace {

struct Printer {
  std::string operator()(const Replicate&) const { return "R"; }
  std::string operator()(const Shard& shard) const { return concat("S(", shard.dim, ")"); }
  std::string operator()(const StridedShard& shard) const {
    return concat("SS(", shard.dim, ",", shard.split_factor, ")");
  }
  std::string operator()(const Partial& partial) const {
    return concat("P(", to_string(partial.op), ")");
  }
};

}  // namespace

std::string to_string(const Placement& placement) {
  return std::visit(Printer{}, placement);
}

}  // namespace tessera
