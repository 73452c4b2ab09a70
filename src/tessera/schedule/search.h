#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/simulate.h"

namespace tessera TSR_API {

struct SearchRequest {
  int64_t pp = 1;
  int64_t microbatches = 1;
  int64_t stages_per_rank = 1;
  std::optional<StagePlacement> placement{};  // Any where none is given.
  Costs costs{};
  /// How many activations a rank may hold at once, in stages × microbatches, each from its F to its
  /// B or W. As many as there are where none is given.
  std::optional<int64_t> memory_limit{};
  std::string name = "auto";  // What the schedule is to be called.
};

struct SearchResult {
  Schedule schedule;
  Simulation simulation;
  StagePlacement placement;
  std::optional<ScheduleKind> family;  // The best that fits; none where none does.
  bool improved;                       // Whether the schedule is better than that one, if any.
  double bound;   // No schedule of this placement and limit has a shorter longest span.
  int64_t steps;  // Tasks placed or timed on the way: what the search took.
};

/// The longest time that a rank takes, from its first start to its last end.
double longest_span(const Simulation& simulation);

/// A short schedule: first by the longest span of a rank, then by the makespan. It verifies, fits
/// the limit and is never worse than the best family that fits. The same request always gives the
/// same schedule: the work is bounded by steps, not by the clock. ConfigError for sizes that are no
/// pipeline, costs that are no times, and a limit below what one microbatch needs.
SearchResult search(const SearchRequest& request);

/// What to search for ZBH1, ZBH2, VHalf, VMin and auto: their placement and their family's memory
/// limit, or `memory_limit` where that is lower. ConfigError for kinds that are generated.
SearchRequest search_request(const ScheduleConfig& config, const Costs& costs,
                             std::optional<int64_t> memory_limit = std::nullopt);

/// The schedule of any kind: generated, or searched for these costs. ConfigError where a generated
/// one does not fit the limit.
Schedule make_schedule(const ScheduleConfig& config, const Costs& costs,
                       std::optional<int64_t> memory_limit = std::nullopt);

}  // namespace tessera
