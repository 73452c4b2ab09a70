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

/// An expert of a layer, to which a parameter belongs.
struct ExpertOf {
  int64_t layer = 0;  // Among the layers with experts.
  int64_t index = 0;  // Among the experts of the layer.
  int64_t count = 1;  // Experts of the layer.

  friend bool operator==(const ExpertOf&, const ExpertOf&) = default;
};

/// The properties of a parameter that a plan needs.
struct ParameterShape {
  std::vector<int64_t> shape = {};  // Of the whole parameter.
  /// The dimension that tensor parallelism shards; without one, every tp rank holds all of it.
  std::optional<size_t> tensor_dim = std::nullopt;
  /// The number of blocks along that dimension which stay whole, e.g. heads. If there are fewer
  /// than tp ranks, several neighbours hold the same block. Unless set, any row may begin a shard.
  std::optional<int64_t> tensor_blocks = std::nullopt;
  /// Parameters of experts: etp shards them in the place of tp.
  std::optional<ExpertOf> expert = std::nullopt;
  /// Another stage holds it as well and counts it in norms and files.
  bool copy = false;
};

/// The part of a parameter that one rank holds, and its consequences.
struct ParameterPlace {
  Part part;                        // The elements on this rank; may be empty.
  AxisNames cut_over = {};          // The axes along which ranks hold different parts.
  int64_t tensor_copies = 1;        // How many neighbours along tp hold this part.
  std::string grad_group = "grad";  // The group over which its gradient is summed.
  /// Exactly one of the ranks of a norm group that hold these elements counts them in norms and
  /// files.
  bool counts = true;
  /// Parameters of a unit with the same text are sharded as one flat buffer.
  std::string buffer = "";

  friend bool operator==(const ParameterPlace&, const ParameterPlace&) = default;
};

/// Whether a rank of train_plan() holds this expert, or a part of it. ConfigError if ep does not
/// divide the experts.
bool holds_expert(const Plan& plan, GlobalRank rank, const ExpertOf& expert);

/// The places of parameters on a rank of train_plan(): those of one unit that share a flat buffer.
/// They are all of experts that the rank holds, or of none.
///
/// Tensor parallelism shards each parameter along its own dimension. If the plan shards over data
/// parallelism, the remaining elements form one flat buffer, and each rank of dp_shard_cp
/// holds one piece of it by the rule of chunk(). For experts these are etp and expert_shard.
std::vector<ParameterPlace> place_buffer(const Plan& plan, GlobalRank rank,
                                         std::span<const ParameterShape> parameters);

}  // namespace tessera
