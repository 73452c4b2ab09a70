#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/flight_dump.h"

/// Combines the dumps of a run's ranks: where each rank is, who waits for whom, and which ranks did
/// something else. Times are differences on one host's clock; clocks are never compared.
namespace tessera TSR_API {

/// An operation for display.
struct FlightOperation {
  std::string name = {};   // "all_reduce", "send to rank 3".
  int64_t sequence = 0;    // The number in the group, or between the two ranks.
  std::string group = {};  // The group's description.

  friend bool operator==(const FlightOperation&, const FlightOperation&) = default;
};
/// "all_reduce #17 of group dp".
std::string to_string(const FlightOperation& operation);

/// Where a rank was when it wrote its dump.
struct FlightPlace {
  FlightOperation operation = {};  // Its oldest incomplete one; its last one if all completed.
  bool ended = false;              // Whether it has completed `operation`.
  int64_t for_ns = 0;              // Since it started or ended.
};

/// A rank of a job, as its dump shows it.
struct FlightRank {
  GlobalRank rank = {};                             // In the world.
  std::string host = {};                            // Name of the host it runs on.
  std::string reason = {};                          // Why it wrote its dump.
  std::optional<FlightPlace> place = std::nullopt;  // Nothing if there was no operation.
};

/// Ranks that wait in one operation, and the absent ranks.
struct FlightWait {
  FlightOperation operation = {};  // As one of the waiting ranks names it.
  RankGroup waiting = {};          // Sorted; at least one.
  RankGroup absent = {};           // Empty if all have arrived.
  int64_t for_ns = 0;              // The longest wait.
};

/// A rank that others wait for and that waits for nobody.
struct FlightLag {
  GlobalRank rank = {};                // The one that is behind.
  std::vector<FlightWait> waits = {};  // Of ranks that wait for it directly.
  RankGroup indirectly = {};           // Ranks that wait for the waiting ranks.
};

/// What some ranks did under one sequence number.
struct FlightVariant {
  std::string what = {};  // "all_reduce Float[2, 3]".
  RankGroup ranks = {};   // Sorted.
};
/// An operation that ranks called differently.
struct FlightDifference {
  FlightOperation operation = {};            // As one of the ranks names it.
  std::vector<FlightVariant> variants = {};  // At least two, by descending number of ranks.
};

/// What the dumps of a job show together.
struct FlightAnalysis {
  int64_t world_size = 1;                 // Ranks of the job, with or without a dump.
  std::vector<FlightRank> ranks = {};     // By rank.
  RankGroup missing = {};                 // Ranks without a dump.
  std::vector<FlightLag> behind = {};     // By rank.
  std::vector<FlightWait> circle = {};    // Ranks that wait for each other.
  std::vector<FlightWait> together = {};  // Operations that all reached, but not all completed.
  std::vector<FlightDifference> differences = {};  // By group and number.
};

/// ConfigError, with the two `origins`, if dumps are not from one run.
void check_one_run(std::span<const FlightDump> dumps, std::span<const std::string> origins);

/// `dumps` are from one run, in any order, at most one per rank.
FlightAnalysis analyse_flight(std::span<const FlightDump> dumps);

}  // namespace tessera
