#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/rank.h"

/// The last operations of one rank, as a value and as JSON. The names in the JSON are those of
/// PyTorch's flight recorder, to which the fields that make a dump self-describing are added.
/// docs/flight-recorder.md has the format.
namespace tessera TSR_API {

enum class FlightState {
  kScheduled,  // The program asked for it.
  kStarted,    // The back end has it.
  kCompleted,
};

/// "scheduled" and so on.
const char* to_string(FlightState state);

/// One input or output of an operation.
struct FlightTensor {
  std::vector<int64_t> sizes = {};
  std::string dtype = {};  // As PyTorch spells it: "Float", "BFloat16", "Long".

  friend bool operator==(const FlightTensor&, const FlightTensor&) = default;
};

/// "Float[1024, 8]".
std::string to_string(const FlightTensor& tensor);

/// A communicator that this rank is a member of.
struct FlightGroup {
  int64_t id = 0;         // Of this process alone; entries point to their group by it.
  std::string name = {};  // The same on all members; no two groups of one rank share it.
  std::string desc = {};  // What people call the group, "dp"; the same on all members.
  RankGroup ranks = {};   // In group-rank order.

  /// Numbers of the last collectives; 0 before the first.
  int64_t last_enqueued = 0;
  int64_t last_started = 0;
  int64_t last_completed = 0;

  friend bool operator==(const FlightGroup&, const FlightGroup&) = default;
};

struct FlightEntry {
  int64_t record_id = 0;  // Counts this rank's entries from 0; older ones may have been dropped.
  int64_t group_id = 0;   // FlightGroup::id.
  /// Collectives of one group count from 1 and meet by this number. For send and recv: how many
  /// collectives of the group came before.
  int64_t collective_seq_id = 0;
  /// Messages from one member of the group to another count from 1: the n-th send of a to b meets
  /// the n-th recv of b from a. 0 for collectives.
  int64_t p2p_seq_id = 0;
  int64_t op_id = 0;  // Counts the group's operations of both kinds on this rank.
  /// Back end and operation: "gloo:all_reduce"; group ranks say who: "gloo:send 0->1",
  /// "gloo:recv 1<-0".
  std::string profiling_name = {};
  std::vector<FlightTensor> inputs = {};
  std::vector<FlightTensor> outputs = {};
  FlightState state = FlightState::kScheduled;
  bool retired = false;  // Waited for, or given up: nobody looks after it any more.
  bool is_p2p = false;
  int64_t timeout_ms = 0;

  /// Nanoseconds since the epoch, by the clock of this rank's host.
  int64_t time_created_ns = 0;
  std::optional<int64_t> time_started_ns = std::nullopt;
  std::optional<int64_t> time_completed_ns = std::nullopt;
  std::optional<double> duration_ms = std::nullopt;  // As the back end measured it.

  friend bool operator==(const FlightEntry&, const FlightEntry&) = default;
};

/// PyTorch's version of the format, whose fields these are.
inline constexpr std::string_view kFlightVersion = "2.10";

struct FlightDump {
  std::string version = std::string(kFlightVersion);
  GlobalRank rank = {};
  int64_t world_size = 1;
  std::string host = {};
  int64_t pid = 0;
  std::string job = {};                   // Equal on all ranks of a run, different between runs.
  int64_t restart = 0;                    // How often the job was started again before.
  std::string reason = {};                // Why it was written: "SIGUSR1", "error: …".
  int64_t created_ns = 0;                 // When, as FlightEntry's times.
  std::vector<FlightGroup> groups = {};   // By id.
  std::vector<FlightEntry> entries = {};  // By record_id; each has its group in `groups`.

  friend bool operator==(const FlightDump&, const FlightDump&) = default;
};

/// The dump as a JSON document that ends in a newline. Text that is no UTF-8 gets marks instead.
std::string to_json(const FlightDump& dump);

/// Bytes; a thousand operations take less than one MB, of many tensors each some ten.
inline constexpr size_t kLargestFlightDump = size_t{64} << 20;

/// Reads what to_json wrote; control characters in texts become spaces, since people see these on
/// terminals. DataError names `origin` (the file), the field and what was expected;
/// no input, however hostile, does worse.
FlightDump parse_flight_dump(std::string_view text, std::string_view origin);

}  // namespace tessera
