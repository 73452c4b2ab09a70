#pragma once

#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>
#include <variant>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// How partial values of several ranks become one.
enum class ReduceOp { kSum, kAvg, kMin, kMax, kProduct, kBitAnd, kBitOr, kBitXor };

/// Every rank of the axis holds the whole.
struct Replicate {
  friend bool operator==(const Replicate&, const Replicate&) = default;
};

/// Each rank of the axis holds one piece of tensor dimension `dim`, cut by the rule of chunk().
struct Shard {
  int64_t dim = 0;
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Like Shard, but the dimension is first cut into `split_factor` pieces and each of these is cut
/// over the axis: what an outer axis holds when an inner axis has cut the same dimension before it.
struct StridedShard {
  int64_t dim = 0;
  int64_t split_factor = 1;
  friend bool operator==(const StridedShard&, const StridedShard&) = default;
};

/// Each rank of the axis holds a term; the value is their reduction.
struct Partial {
  ReduceOp op = ReduceOp::kSum;
  friend bool operator==(const Partial&, const Partial&) = default;
};

/// What one mesh axis does to a tensor. A tensor has one per axis, outermost first.
using Placement = std::variant<Replicate, Shard, StridedShard, Partial>;

/// "R", "S(0)", "SS(0,2)", "P(sum)".
const char* to_string(ReduceOp op);
std::string to_string(const Placement& placement);

inline std::ostream& operator<<(std::ostream& out, ReduceOp op) {
  return out << to_string(op);
}
/// Placements and their kinds alone: a variant is made of more than those.
template <class Kind>
  requires std::same_as<Kind, Placement> || std::same_as<Kind, Replicate> ||
           std::same_as<Kind, Shard> || std::same_as<Kind, StridedShard> ||
           std::same_as<Kind, Partial>
std::ostream& operator<<(std::ostream& out, const Kind& placement) {
  return out << to_string(Placement(placement));
}

}  // namespace tessera
