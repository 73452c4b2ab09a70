#include "tessera/tensor/placements.h"

#include <optional>

#include "tessera/base/check.h"

namespace tessera {
namespace {

int64_t* dim_of(Placement& placement) {
  if (auto* shard = std::get_if<Shard>(&placement)) return &shard->dim;
  if (auto* strided = std::get_if<StridedShard>(&placement)) return &strided->dim;
  return nullptr;
}

void normalize(Placement& placement, int64_t num_dims) {
  if (const auto* strided = std::get_if<StridedShard>(&placement)) {
    TSR_CHECK(strided->split_factor > 0, "placement ", to_string(placement), " has split factor ",
              strided->split_factor, "; split factors must be ≥ 1");
  }
  int64_t* const dim = dim_of(placement);
  if (dim == nullptr) return;
  TSR_CHECK(-num_dims <= *dim && *dim < num_dims, "placement ", to_string(placement),
            " names dimension ", *dim, " of a tensor of ", num_dims, " dimensions; choose ",
            num_dims == 0 ? "R, because a scalar cannot be sharded"
                          : concat("one from ", -num_dims, " to ", num_dims - 1));
  if (*dim < 0) *dim += num_dims;
}

bool is_linear(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kAvg;
}

void check_one_reduction(std::span<const Placement> placements) {
  std::optional<ReduceOp> first;
  for (const Placement& placement : placements) {
    const auto* const partial = std::get_if<Partial>(&placement);
    if (partial == nullptr) continue;
    if (!first) first = partial->op;
    TSR_CHECK(partial->op == *first || (is_linear(partial->op) && is_linear(*first)),
              "placements (", to_string(placements), ") mix the reductions ", to_string(*first),
              " and ", to_string(partial->op), "; reduce one of them first");
  }
}

}  // namespace

std::string to_string(std::span<const Placement> placements) {
  std::vector<std::string> texts;
  for (const Placement& placement : placements) texts.push_back(to_string(placement));
  return join(texts, ", ");
}

Placements checked_placements(std::span<const Placement> placements, int64_t num_dims,
                              int64_t num_axes) {
  TSR_CHECK(static_cast<int64_t>(placements.size()) == num_axes, "placements (",
            to_string(placements), "): got ", placements.size(), " for a mesh of ", num_axes,
            " axes; pass one per axis");
  Placements normal(placements.begin(), placements.end());
  for (Placement& placement : normal) normalize(placement, num_dims);
  check_one_reduction(normal);
  return normal;
}

Placements gradient_placements(std::span<const Placement> placements) {
  Placements gradient(placements.begin(), placements.end());
  for (Placement& placement : gradient) {
    if (std::holds_alternative<Partial>(placement)) placement = Replicate{};
  }
  return gradient;
}

}  // namespace tessera
