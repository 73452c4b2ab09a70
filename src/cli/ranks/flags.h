#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "tessera/draw/sequence_split.h"
#include "tessera/plan/dialect.h"
#include "tessera/plan/traffic.h"

namespace tessera::cli {

inline constexpr const char* kDefaultDialect = "megatron";

/// The flags of `tessera ranks`.
struct RanksFlags {
  std::string dialect = kDefaultDialect;
  FlagValues layout;  // The dialect's own flags.
  std::optional<int64_t> world, rank, gpus_per_node, nodes_per_rack;
  std::optional<int64_t> hidden, layers, sequence;  // Of the page's training step.
  std::optional<std::string> cp_layout, documents;  // Of a sequence over the ranks of a cp group.
  std::optional<int64_t> micro_batch, microbatches, experts_per_token, parameters,
      expert_parameters;
  std::optional<std::string> svg, html, to;
  std::string color = "auto";
  bool json = false;

  bool is_example() const { return !world && layout.empty(); }
  /// The training step, if the flags describe one; ConfigError if they describe only part of it.
  std::optional<TrainingStep> step() const;
  /// The sequence over the ranks of a cp group, if the flags ask for it, or there is a page and cp
  /// is above 1: then one of 1,024 tokens per rank. ConfigError if cp is 1 but they ask for it.
  std::optional<SequenceSplit> split(int64_t cp) const;
};

/// The dialect whose flags the arguments use: the value of --dialect or --from.
std::string dialect_of(const std::vector<std::string>& arguments);

/// Adds the flags of the dialect `flags.dialect`. It also recognizes the flags of other dialects,
/// to refuse them and name the right one.
void add_ranks_flags(CLI::App& app, RanksFlags& flags);

/// ConfigError if flags for different purposes are combined.
void check_together(const RanksFlags& flags);

}  // namespace tessera::cli
