#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/dialect.h"

namespace tessera TSR_API {

/// The model and the batch whose training step is estimated.
struct TrainingStep {
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t sequence = 0;     // Tokens.
  int64_t micro_batch = 1;  // Sequences in it.
  int64_t microbatches = 1;
  int64_t experts_per_token = 2;
  std::optional<int64_t> parameters = std::nullopt;  // 12·layers·hidden², unless given.

  double num_parameters() const;
};

/// Sizes below 1 raise ConfigError, and a pipeline with fewer layers than stages.
void check(const TrainingStep& step, const DialectPlan& layout);

/// How the members of a group talk.
enum class Pattern {
  kRing,      // Each sends to the next one, the last to the first.
  kLine,      // Stages: each sends to the next and to the one before.
  kAllToAll,  // Each sends the same to every other.
};

/// What one kind of group sends in a training step.
struct Traffic {
  std::string name = "";     // Of the GroupSpec.
  std::string what = "";     // "4 all-reduces of activations in every layer"
  std::string formula = "";  // In the letters of traffic_symbols().
  Pattern pattern = Pattern::kRing;
  double bytes = 0;  // That a rank sends; a stage in the middle for kLine.
};

/// For each kind of group of more than one rank that carries much, in the order of roles: an
/// estimate to compare layouts by, on traffic_assumptions().
std::vector<Traffic> traffic_of(const DialectPlan& layout, const TrainingStep& step);

const char* traffic_assumptions();

/// What a letter of the formulas means and is.
struct Symbol {
  std::string letter;
  std::string meaning;
  double value = 0;
  bool is_bytes = false;
};
std::vector<Symbol> traffic_symbols(const DialectPlan& layout, const TrainingStep& step);

/// Where the machine's boundaries are.
struct Machine {
  int64_t gpus_per_node = 8;
  std::optional<int64_t> nodes_per_rack = std::nullopt;  // One rack holds all, unless given.
};

enum class Link { kInNode, kAcrossNodes, kAcrossRacks };

/// "in node", "across nodes", "across racks".
const char* to_string(Link link);

Link link_between(GlobalRank a, GlobalRank b, const Machine& machine);

/// One number for each link.
struct PerLink {
  double in_node = 0;
  double across_nodes = 0;
  double across_racks = 0;

  double& operator[](Link link);
};

/// How many groups have this as their widest link.
PerLink groups_per_link(const GroupFamily& groups, const Machine& machine);

/// The bytes that all ranks together send over each kind of link in a step, for one kind of group.
PerLink bytes_per_link(const GroupFamily& groups, const Traffic& traffic, const Machine& machine);

}  // namespace tessera
