#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/context_parallel.h"
#include "tessera/plan/dialect.h"
#include "tessera/plan/train_plan.h"

namespace tessera TSR_API {

/// The heads of attention.
struct AttentionHeads {
  int64_t query = 1;  // Query heads per layer, before tp splits them.
  int64_t kv = 1;     // Key-value heads per layer, before tp splits them.
  int64_t size = 1;   // Elements per head.
};

/// The model and the batch of the training step to estimate.
struct TrainingStep {
  int64_t hidden = 0;                                   // Elements per token.
  int64_t layers = 0;                                   // Of the whole model.
  int64_t sequence = 0;                                 // Tokens.
  int64_t micro_batch = 1;                              // Sequences per micro-batch.
  int64_t microbatches = 1;                             // Per step and pipeline.
  int64_t experts_per_token = 2;                        // That a router chooses.
  std::optional<int64_t> expert_layers = std::nullopt;  // Layers with experts; default: all.
  std::optional<int64_t> parameters = std::nullopt;     // Default: 12·layers·hidden².
  int64_t expert_parameters = 0;                        // Those of experts among them.
  int64_t element_bytes = 2;                            // bf16.
  /// Sequence parallelism, whose backward pass gathers the inputs of column-parallel layers again.
  bool sequence_parallel = false;
  /// Default: as many key-value heads as query heads, all together of the hidden size.
  std::optional<AttentionHeads> heads = std::nullopt;
  ContextParallelOptions context = {};  // How the ranks of cp exchange.
  /// Whether ranks of experts gather all tokens, instead of an all-to-all of rows.
  bool gathers_tokens = false;

  /// `parameters`, or its default.
  double num_parameters() const;
};

/// ConfigError for sizes below 1, for more parameters of experts than parameters, and for a
/// pipeline with fewer layers than stages.
void check(const TrainingStep& step, const DialectPlan& layout);

/// The communication pattern of a group.
enum class Pattern {
  kRing,      // Each rank sends to the next, the last to the first.
  kLine,      // Pipeline stages: each sends to the next and to the previous one.
  kAllToAll,  // Each sends the same amount to every other.
};

/// The traffic of one kind of group in a training step.
struct Traffic {
  std::string name = "";             // The GroupSpec's.
  std::string what = "";             // "4 all-reduces of activations per layer"
  std::string formula = "";          // In the symbols of traffic_symbols().
  Pattern pattern = Pattern::kRing;  // Who sends to whom.
  double bytes = 0;                  // Sent per rank; for kLine, by a middle stage.
};

/// The traffic of each kind of group with several ranks and significant volume, in the order of
/// roles: an estimate to compare layouts, under traffic_assumptions(). Hierarchical context
/// parallelism has two, named after the groups of its sizes.
std::vector<Traffic> traffic_of(const DialectPlan& layout, const TrainingStep& step);

/// The bytes that dispatch and combine send per training step, forward and backward, if routers
/// send `out` rows of this rank to other ranks, and `in` rows of others come here, over all layers
/// and micro-batches. A row is the hidden state of one token for one expert. traffic_of() assumes
/// that routers spread them evenly.
double dispatch_bytes(double out, double in, const TrainingStep& step);

/// The layout of a training run, with the roles of its groups, for a model with or without experts.
/// The type is one of data_parallel_types().
DialectPlan train_layout(const ParallelDims& dims, const std::string& data_parallel_type,
                         bool experts);

/// What the estimate assumes, in words.
const char* traffic_assumptions();

/// A symbol of the formulas: its meaning and value.
struct Symbol {
  std::string letter;     // As in Traffic::formula, e.g. "A".
  std::string meaning;    // "layers per stage: layers/pp"
  double value = 0;       // For this layout and step.
  bool is_bytes = false;  // Otherwise the value is a count.
};
/// The symbols of the formulas and their values.
std::vector<Symbol> traffic_symbols(const DialectPlan& layout, const TrainingStep& step);

/// The size of a node and of a rack.
struct Machine {
  int64_t gpus_per_node = 8;                             // Consecutive ranks on one node.
  std::optional<int64_t> nodes_per_rack = std::nullopt;  // Default: all nodes.
};

/// How far apart two ranks are.
enum class Link { kInNode, kAcrossNodes, kAcrossRacks };

/// "in node", "across nodes", "across racks".
const char* to_string(Link link);

/// How two ranks are connected.
Link link_between(GlobalRank a, GlobalRank b, const Machine& machine);

/// One number per kind of link.
struct PerLink {
  double in_node = 0;       // Between ranks of one node.
  double across_nodes = 0;  // Between nodes of one rack.
  double across_racks = 0;  // Between racks.

  double& operator[](Link link);
};

/// The number of groups by their widest link.
PerLink groups_per_link(const GroupFamily& groups, const Machine& machine);

/// The bytes that all ranks of one kind of group send per step over each kind of link.
PerLink bytes_per_link(const GroupFamily& groups, const Traffic& traffic, const Machine& machine);

}  // namespace tessera
