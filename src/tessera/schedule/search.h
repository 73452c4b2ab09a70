#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/simulate.h"

namespace tessera TSR_API {

/// What a schedule is searched for.
struct SearchRequest {
  int64_t pp = 1;                             // Ranks per pipeline.
  int64_t microbatches = 1;                   // Per step.
  int64_t stages_per_rank = 1;                // At least 1.
  std::optional<StagePlacement> placement{};  // Default: the better one.
  Costs costs{};                              // Times of the actions.
  /// The activations that a rank may hold at once, in stages × microbatches, each from its F to its
  /// B or W. Default: no limit.
  std::optional<int64_t> memory_limit{};
  std::string name = "auto";  // The name of the schedule.
};

/// The best schedule that was found.
struct SearchResult {
  Schedule schedule;                   // Compute-only, without idle slots.
  Simulation simulation;               // With the costs of the request.
  StagePlacement placement;            // The requested one, or the better one.
  std::optional<ScheduleKind> family;  // The best family that fits, if any.
  bool improved;                       // Whether the schedule is better than that family.
  double bound;   // A lower bound of the longest span for this placement and limit.
  int64_t steps;  // Tasks placed or timed: the work of the search.
};

/// The longest span of a rank, from its first start to its last end.
double longest_span(const Simulation& simulation);

/// A short schedule: first by the longest span of a rank, then by the makespan. It verifies, fits
/// the limit and is never worse than the best family that fits. The same request always gives the
/// same schedule: steps limit the work, not the clock. ConfigError for invalid sizes, costs that
/// are not times, and a limit below the needs of one microbatch.
SearchResult search(const SearchRequest& request);

/// The request for ZBH1, ZBH2, VHalf, VMin and auto: their placement and their family's memory
/// limit, or `memory_limit` if that is lower. ConfigError for kinds that are generated.
SearchRequest search_request(const ScheduleConfig& config, const Costs& costs,
                             std::optional<int64_t> memory_limit = std::nullopt);

/// The schedule of any kind, generated or searched for these costs. ConfigError if a generated one
/// exceeds the limit.
Schedule make_schedule(const ScheduleConfig& config, const Costs& costs,
                       std::optional<int64_t> memory_limit = std::nullopt);

}  // namespace tessera
