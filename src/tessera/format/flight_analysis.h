#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/flight_dump.h"

/// What the dumps of a run's ranks say together: who is where, who waits for whom, who did
/// something else. Times are differences on one host's clock; clocks are never compared.
namespace tessera TSR_API {

/// An operation as people speak of it.
struct FlightOperation {
  std::string name = {};   // "all_reduce", "send to rank 3".
  int64_t sequence = 0;    // Its number in the group, or between the two ranks.
  std::string group = {};  // What people call the group.

  friend bool operator==(const FlightOperation&, const FlightOperation&) = default;
};
/// "all_reduce #17 of group dp".
std::string to_string(const FlightOperation& operation);

/// Where a rank was when it wrote its dump: in its oldest operation that has not ended, otherwise
/// after its last one.
struct FlightPlace {
  FlightOperation operation = {};
  bool ended = false;
  int64_t for_ns = 0;  // Since it began, or since it ended.
};

struct FlightRank {
  GlobalRank rank = {};
  std::string host = {};
  std::string reason = {};                          // Why it wrote its dump.
  std::optional<FlightPlace> place = std::nullopt;  // Nothing where it did no operation.
};

/// Ranks in one operation, and whom they miss there.
struct FlightWait {
  FlightOperation operation = {};
  RankGroup waiting = {};
  RankGroup absent = {};  // Empty where all have come.
  int64_t for_ns = 0;     // The longest of them.
};

/// A rank that others wait for, and that waits for nobody.
struct FlightLag {
  GlobalRank rank = {};
  std::vector<FlightWait> waits = {};
  RankGroup indirectly = {};  // Those who wait for the waiting.
};

/// What some ranks did under one number.
struct FlightVariant {
  std::string what = {};  // "all_reduce Float[2, 3]".
  RankGroup ranks = {};
};
struct FlightDifference {
  FlightOperation operation = {};
  std::vector<FlightVariant> variants = {};  // At least two; of the most ranks first.
};

struct FlightAnalysis {
  int64_t world_size = 1;
  std::vector<FlightRank> ranks = {};     // By rank.
  RankGroup missing = {};                 // Ranks without a dump.
  std::vector<FlightLag> behind = {};     // By rank.
  std::vector<FlightWait> circle = {};    // Waits for each other.
  std::vector<FlightWait> together = {};  // Operations that all reached, but some not left.
  std::vector<FlightDifference> differences = {};  // Of each group by number.
};

/// Refuses dumps that cannot be looked at together: ConfigError names the two by their `origins`.
void check_one_run(std::span<const FlightDump> dumps, std::span<const std::string> origins);

/// `dumps` are of one run, in any order, at most one of each rank.
FlightAnalysis analyse_flight(std::span<const FlightDump> dumps);

}  // namespace tessera
