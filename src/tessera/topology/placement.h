#pragma once

#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>
#include <variant>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// How partial values of several ranks are reduced.
enum class ReduceOp { kSum, kAvg, kMin, kMax, kProduct, kBitAnd, kBitOr, kBitXor };

/// Every rank of the axis holds the whole tensor.
struct Replicate {
  friend bool operator==(const Replicate&, const Replicate&) = default;
};

/// Each rank of the axis holds one piece of tensor dimension `dim`, cut by the rule of chunk().
struct Shard {
  int64_t dim = 0;  // Negative: counts from the end.
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Like Shard, but first splits the dimension into `split_factor` pieces and shards each over the
/// axis: the shard of an outer axis after an inner axis has sharded the same dimension.
struct StridedShard {
  int64_t dim = 0;           // Negative: counts from the end.
  int64_t split_factor = 1;  // At least 1; 1: as Shard.
  friend bool operator==(const StridedShard&, const StridedShard&) = default;
};

/// Each rank of the axis holds a partial value; the tensor is their reduction.
struct Partial {
  ReduceOp op = ReduceOp::kSum;  // Reduces the partial values to the tensor.
  friend bool operator==(const Partial&, const Partial&) = default;
};

/// The placement of a tensor on one mesh axis. A tensor has one per axis, outermost first.
using Placement = std::variant<Replicate, Shard, StridedShard, Partial>;

/// "R", "S(0)", "SS(0,2)", "P(sum)".
const char* to_string(ReduceOp op);
/// "R", "S(0)", "SS(0,2)", "P(sum)".
std::string to_string(const Placement& placement);

/// Writes to_string(op).
inline std::ostream& operator<<(std::ostream& out, ReduceOp op) {
  return out << to_string(op);
}
/// Only for placements and their kinds, because a variant converts from other types.
template <class Kind>
  requires std::same_as<Kind, Placement> || std::same_as<Kind, Replicate> ||
           std::same_as<Kind, Shard> || std::same_as<Kind, StridedShard> ||
           std::same_as<Kind, Partial>
std::ostream& operator<<(std::ostream& out, const Kind& placement) {
  return out << to_string(Placement(placement));
}

}  // namespace tessera
