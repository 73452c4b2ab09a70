#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "tessera/plan/dialect.h"
#include "tessera/plan/traffic.h"

namespace tessera::cli {

inline constexpr const char* kDefaultDialect = "megatron";

/// What `tessera ranks` was told.
struct RanksFlags {
  std::string dialect = kDefaultDialect;
  FlagValues layout;  // The dialect's own flags.
  std::optional<int64_t> world, rank, gpus_per_node, nodes_per_rack;
  std::optional<int64_t> hidden, layers, sequence;  // Of the page's training step.
  std::optional<int64_t> micro_batch, microbatches, experts_per_token, parameters;
  std::optional<std::string> svg, html, to;
  std::string color = "auto";
  bool json = false;

  bool is_example() const { return !world && layout.empty(); }
  /// The training step, where one was described; ConfigError where that is half done.
  std::optional<TrainingStep> step() const;
};

/// The dialect whose flags the arguments use: what stands after --dialect or --from.
std::string dialect_of(const std::vector<std::string>& arguments);

/// Adds the flags; `flags.dialect` says whose are offered. Those of other dialects are understood,
/// to be refused with the right one.
void add_ranks_flags(CLI::App& app, RanksFlags& flags);

/// ConfigError where flags of different purposes were given together.
void check_together(const RanksFlags& flags);

}  // namespace tessera::cli
