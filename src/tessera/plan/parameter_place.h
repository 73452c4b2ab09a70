#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/plan.h"
#include "tessera/topology/part.h"

namespace tessera TSR_API {

/// What a plan needs to know of a parameter.
struct ParameterShape {
  std::vector<int64_t> shape = {};
  /// The dimension that tensor parallelism cuts; without one every rank of tp holds all of it.
  std::optional<size_t> tensor_dim = std::nullopt;
  /// Another stage holds it as well, which counts it in norms and files.
  bool copy = false;
};

/// What one rank holds of a parameter, and what follows from that.
struct ParameterPlace {
  Part part;
  AxisNames cut_over = {};          // The axes along which other ranks hold other parts.
  std::string grad_group = "grad";  // The plan's group over which its gradient is summed.
  /// Of the ranks of a norm group that hold these elements, one counts them: in norms and files.
  bool counts = true;
  /// Parameters of a unit with the same text are sharded as one flat buffer.
  std::string buffer = "";

  friend bool operator==(const ParameterPlace&, const ParameterPlace&) = default;
};

/// The places of parameters on a rank of train_plan(): those of one unit that share a flat buffer.
///
/// Tensor parallelism cuts first, along each parameter's own dimension. If the plan shards, what
/// is left of all parameters is one flat buffer, of which each rank of dp_shard_cp holds one piece
/// by the rule of chunk().
std::vector<ParameterPlace> place_buffer(const Plan& plan, GlobalRank rank,
                                       std::span<const ParameterShape> parameters);

}  // namespace tessera
