#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/placement.h"

/// How parallelize_module() splits a layer. Names and defaults are those of
/// torch.distributed.tensor.parallel. A layout is Replicate or Shard of a dimension; it says what
/// the module's code passes to the layer and gets from it, as plain tensors.
namespace tessera TSR_API {

/// Splits the outputs: rows of the weight of a linear layer, columns of that of an embedding.
struct ColwiseParallel {
  Placement input_layouts = Replicate{};  // Of what the code passes to the layer.
  Placement output_layouts = Shard{-1};   // Of what the code gets from the layer.
  friend bool operator==(const ColwiseParallel&, const ColwiseParallel&) = default;
};

/// Splits the inputs: columns of the weight of a linear layer, rows of that of an embedding (the
/// vocabulary). The bias is added once.
struct RowwiseParallel {
  /// Unless set, Shard{-1} for a linear layer, Replicate for the tokens of an embedding.
  std::optional<Placement> input_layouts = std::nullopt;
  Placement output_layouts = Replicate{};  // Of what the code gets from the layer.
  friend bool operator==(const RowwiseParallel&, const RowwiseParallel&) = default;
};

/// Splits the positions of the input, e.g. of norms. Every rank holds the parameters as a whole;
/// the backward pass sums their gradients over the ranks.
struct SequenceParallel {
  int64_t sequence_dim = 1;  // The dimension of positions, in input and output.
  friend bool operator==(const SequenceParallel&, const SequenceParallel&) = default;
};

/// Converts the input of a module. Layers that read the same tensor share one conversion.
struct PrepareModuleInput {
  Placement input_layouts = Replicate{};          // Of what the module gets.
  Placement desired_input_layouts = Replicate{};  // Of what its layers compute on.
  friend bool operator==(const PrepareModuleInput&, const PrepareModuleInput&) = default;
};

/// Converts the output of a module.
struct PrepareModuleOutput {
  Placement output_layouts = Replicate{};          // Of what the module's layers produce.
  Placement desired_output_layouts = Replicate{};  // Of what the module returns.
  friend bool operator==(const PrepareModuleOutput&, const PrepareModuleOutput&) = default;
};

/// How a layer is split.
using ParallelStyle = std::variant<ColwiseParallel, RowwiseParallel, SequenceParallel,
                                   PrepareModuleInput, PrepareModuleOutput>;

/// Name patterns and the styles of the modules that match them: "*" stands for any part of a name
/// between dots; "" is the module itself.
///
///   const ParallelPlan plan{{"layers.*.up", ColwiseParallel{}},
///                           {"layers.*.down", RowwiseParallel{}}};
using ParallelPlan = std::vector<std::pair<std::string, ParallelStyle>>;

}  // namespace tessera
