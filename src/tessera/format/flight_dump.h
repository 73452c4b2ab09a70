#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/rank.h"

/// The last operations of one rank, as a value and as JSON. The JSON has the names of PyTorch's
/// flight recorder, and further fields that make a dump self-describing. docs/flight-recorder.md
/// has the format.
namespace tessera TSR_API {

/// How far an operation got.
enum class FlightState {
  kScheduled,  // Requested by the program.
  kStarted,    // The program waits for it.
  kCompleted,
};

/// E.g. "scheduled".
const char* to_string(FlightState state);

/// One input or output of an operation.
struct FlightTensor {
  std::vector<int64_t> sizes = {};  // One per dimension; empty: a scalar.
  std::string dtype = {};           // As PyTorch spells it: "Float", "BFloat16", "Long".

  friend bool operator==(const FlightTensor&, const FlightTensor&) = default;
};

/// "Float[1024, 8]".
std::string to_string(const FlightTensor& tensor);

/// A communicator that this rank is a member of.
struct FlightGroup {
  int64_t id = 0;         // Local to this process; entries refer to it.
  std::string name = {};  // The same on all members; no two groups of one rank share it.
  std::string desc = {};  // For display, e.g. "dp"; the same on all members.
  RankGroup ranks = {};   // In group-rank order.

  int64_t last_enqueued = 0;   // Number of the last collective requested; 0: none.
  int64_t last_started = 0;    // Number of the last collective started; 0: none.
  int64_t last_completed = 0;  // Number of the last collective completed; 0: none.

  friend bool operator==(const FlightGroup&, const FlightGroup&) = default;
};

/// An operation of a rank.
struct FlightEntry {
  int64_t record_id = 0;  // Counts this rank's entries from 0; old ones may be dropped.
  int64_t group_id = 0;   // FlightGroup::id.
  /// Collectives of one group count from 1 and match by this number. For send and recv: the number
  /// of earlier collectives of the group.
  int64_t collective_seq_id = 0;
  /// Messages from one member of the group to another count from 1: the n-th send of a to b matches
  /// the n-th recv of b from a. 0 for collectives.
  int64_t p2p_seq_id = 0;
  int64_t op_id = 0;  // Counts all of the group's operations on this rank.
  /// Engine and operation, e.g. "shm:all_reduce", "gloo:all_reduce"; for messages also the group
  /// ranks: "gloo:send 0->1", "gloo:recv 1<-0".
  std::string profiling_name = {};
  std::vector<FlightTensor> inputs = {};   // In the order of the call.
  std::vector<FlightTensor> outputs = {};  // As `inputs` unless the operation changes the shape.
  FlightState state = FlightState::kScheduled;  // When the rank wrote the dump.
  bool retired = false;                         // Waited for or abandoned.
  bool is_p2p = false;                          // A send or recv, not a collective.
  int64_t timeout_ms = 0;                       // Limit for waiting until it completes.

  /// When the program requested it: nanoseconds since the epoch, on this host's clock.
  int64_t time_created_ns = 0;
  std::optional<int64_t> time_started_ns = std::nullopt;    // As time_created_ns; empty: not yet.
  std::optional<int64_t> time_completed_ns = std::nullopt;  // As time_created_ns; empty: not yet.
  std::optional<double> duration_ms = std::nullopt;         // Measured by the back end.

  friend bool operator==(const FlightEntry&, const FlightEntry&) = default;
};

/// The version of PyTorch's format that has these fields.
inline constexpr std::string_view kFlightVersion = "2.10";

/// The last operations of a rank.
struct FlightDump {
  std::string version = std::string(kFlightVersion);  // Of PyTorch's format; starts with "2.".
  GlobalRank rank = {};                               // Of the process that wrote it.
  int64_t world_size = 1;                             // Ranks of the job.
  std::string host = {};                              // Name of the host the process ran on.
  int64_t pid = 0;                                    // Process id on `host`.
  std::string job = {};                   // Equal on all ranks of a run, different between runs.
  int64_t restart = 0;                    // The number of restarts before.
  std::string reason = {};                // Why the rank wrote it: "SIGUSR1", "error: …".
  int64_t created_ns = 0;                 // On the clock of FlightEntry's times.
  std::vector<FlightGroup> groups = {};   // By id.
  std::vector<FlightEntry> entries = {};  // By record_id; each has its group in `groups`.

  friend bool operator==(const FlightDump&, const FlightDump&) = default;
};

/// The dump as a JSON document that ends in a newline. Invalid UTF-8 is replaced by U+FFFD.
std::string to_json(const FlightDump& dump);

/// Bytes; a thousand operations take less than 1 MB, or about 10 MB with many tensors each.
inline constexpr size_t kLargestFlightDump = size_t{64} << 20;

/// Parses the output of to_json; control characters in texts become spaces, because tools print
/// them on terminals. DataError with `origin` (the file), the field and the expectation for any
/// malformed input.
FlightDump parse_flight_dump(std::string_view text, std::string_view origin);

}  // namespace tessera
