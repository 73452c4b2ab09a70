#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/schedule/simulate.h"
#include "tessera/topology/rank.h"

/// What the units of a rank did in one step of a real run, and when. docs/reports.md has the files.
namespace tessera TSR_API {

/// What a unit of FSDP or context parallelism does.
enum class UnitAction {
  kGather,    // An all-gather of its parameters is in flight.
  kHeld,      // Its gathered parameters take memory, from the start of the gather until freed.
  kForward,   // Its forward pass runs.
  kBackward,  // Its backward pass runs.
  kReduce,    // A reduction of its gradients is in flight.
  kWait,      // The thread that computes is blocked until communication of it has ended.
  kExchange,  // Keys, values, their gradients or heads are in flight between the ranks of cp.
  kAttend,    // An attention product of context parallelism runs.
};
/// "gather".
std::string_view to_string(UnitAction action);

/// Something that a unit did, and when.
struct UnitEvent {
  std::string unit = {};                    // "model.layers.3"
  UnitAction action = UnitAction::kGather;  // What it did during `time`.
  TimeSpan time = {};  // Seconds since an origin that all ranks share; not after the step's end.

  friend bool operator==(const UnitEvent&, const UnitEvent&) = default;
};

/// One rank's part of one step.
struct UnitRecord {
  int64_t step = 0;                    // Of the run, from 0.
  GlobalRank rank = {};                // In the world.
  double seconds = 0;                  // When the gradients of the step were complete.
  std::vector<UnitEvent> events = {};  // Of all units; they may overlap.

  friend bool operator==(const UnitRecord&, const UnitRecord&) = default;
};

/// Bytes.
inline constexpr size_t kLargestUnitRecord = size_t{128} << 20;

/// A JSON document with one line per event.
std::string to_json(const UnitRecord& record);
/// DataError with `origin`, the field and the expectation for any malformed input.
UnitRecord parse_unit_record(std::string_view text, std::string_view origin);

/// "RUN/units/step-12.rank-3.json".
std::filesystem::path unit_record_path(const std::filesystem::path& run, int64_t step,
                                       GlobalRank rank);
/// Writes the record there and creates the folder if needed.
void write_unit_record(const std::filesystem::path& run, const UnitRecord& record);

/// The recorded steps of the run, ascending. DataError if there are none.
std::vector<int64_t> recorded_unit_steps(const std::filesystem::path& run);
/// The records of all ranks of a step, by rank. ConfigError if it was not recorded.
std::vector<UnitRecord> read_unit_records(const std::filesystem::path& run, int64_t step);

/// How a rank's communication overlapped with compute, in seconds.
struct CommunicationTimes {
  double step = 0;       // Length of the step, until its gradients were complete.
  double in_flight = 0;  // While at least one gather, reduction or exchange was in flight.
  double waited = 0;     // While the thread that computes was blocked in one: idle time.

  /// `waited` as a fraction of `step`.
  double waited_share() const { return waited / step; }
};
/// How long communication was in flight, and how long compute waited for it.
CommunicationTimes communication_times(const UnitRecord& record);
/// "communication in flight for 31.2 ms of …".
std::string to_string(const CommunicationTimes& times);

}  // namespace tessera
