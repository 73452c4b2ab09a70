#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "tessera/base/export.h"
#include "tessera/launch/failure_block.h"

namespace tessera TSR_API {

/// The protocol between the launchers of several nodes, version 4.
///
/// Each member has a TCP connection to node 0's launcher, the coordinator. A message is one line:
/// a JSON object in ASCII, at most kLongestMessage bytes with its '\n', whose "type" is one of the
/// words below. Any other line, an unknown type or key, a missing or repeated field, or a number
/// out of range ends the connection.
///
///   member to coordinator            coordinator to member
///   join     first, and once         welcome  admitted; wait
///   healthy  all ranks connected     refuse   not admitted; later: try again
///   failed   its first failure       start    a round: number the ranks and start them
///   done     all its ranks ended 0   stop     a failure somewhere: stop the ranks
///   stopped  none of its ranks runs  end      the job is over: leave with this code
///   ping     every 3 seconds         ping     every 6 seconds
///
/// Rounds count from 0. Messages about another round than the current one are ignored.
inline constexpr int64_t kProtocolVersion = 4;
/// The longest message that is accepted, in bytes.
inline constexpr size_t kLongestMessage = size_t{64} << 10;

/// A node asks to join the job.
struct JoinMessage {
  int64_t version = kProtocolVersion;  // Of the sender's protocol.
  std::string id = "";                 // The sender's --rdzv-id.
  int64_t nnodes = 1;                  // The sender's --nnodes.
  int64_t nproc = 1;                   // The sender's --nproc.
  int64_t node = -1;                   // -1: any free number.
  std::string host = "";               // Name of the sender's host.
  friend bool operator==(const JoinMessage&, const JoinMessage&) = default;
};

/// Node 0 accepts a node.
struct WelcomeMessage {
  friend bool operator==(const WelcomeMessage&, const WelcomeMessage&) = default;
};

/// Node 0 refuses a node.
struct RefuseMessage {
  std::string reason = "";  // For the user of that node.
  bool later = false;       // The node may try again, e.g. after another one is lost.
  friend bool operator==(const RefuseMessage&, const RefuseMessage&) = default;
};

/// Node 0 tells a node to start its ranks.
struct StartMessage {
  int64_t round = 0;             // The round that starts.
  int64_t restart = 0;           // The number of restarts so far.
  int64_t max_restarts = 0;      // Node 0's --max-restarts.
  int64_t node = 0;              // The receiver's number in this round.
  int64_t nnodes = 1;            // Of this round.
  std::string master_addr = "";  // MASTER_ADDR of the ranks.
  int64_t master_port = 0;       // MASTER_PORT of the ranks.
  std::string secret = "";       // The ranks need it to use the store.
  friend bool operator==(const StartMessage&, const StartMessage&) = default;
};

/// All ranks of a node have started.
struct HealthyMessage {
  int64_t round = 0;  // The round of these ranks.
  friend bool operator==(const HealthyMessage&, const HealthyMessage&) = default;
};

/// A rank of a node failed.
struct FailedMessage {
  int64_t round = 0;     // The round in which it failed.
  Failure failure = {};  // Why; node 0 sets its `node`.
  friend bool operator==(const FailedMessage&, const FailedMessage&) = default;
};

/// All ranks of a node ended well.
struct DoneMessage {
  int64_t round = 0;  // The round of these ranks.
  friend bool operator==(const DoneMessage&, const DoneMessage&) = default;
};

/// Node 0 tells a node to stop its ranks.
struct StopMessage {
  int64_t round = 0;     // The round to stop.
  Failure failure = {};  // What ended the round.
  Verdict verdict = {};  // Whether a restart follows.
  friend bool operator==(const StopMessage&, const StopMessage&) = default;
};

/// All ranks of a node are stopped.
struct StoppedMessage {
  int64_t round = 0;       // The round of these ranks.
  bool resumable = false;  // All its ranks ended with kResumeExitCode.
  friend bool operator==(const StoppedMessage&, const StoppedMessage&) = default;
};

/// The job has ended.
struct EndMessage {
  std::optional<Failure> failure = {};  // None: success.
  friend bool operator==(const EndMessage&, const EndMessage&) = default;
};

/// A sign of life.
struct PingMessage {
  friend bool operator==(const PingMessage&, const PingMessage&) = default;
};

/// Any message between node 0 and another node.
using Message =
    std::variant<JoinMessage, WelcomeMessage, RefuseMessage, StartMessage, HealthyMessage,
                 FailedMessage, DoneMessage, StopMessage, StoppedMessage, EndMessage, PingMessage>;

/// One line with its '\n'. Cuts texts that would make it too long, and replaces invalid UTF-8 by
/// U+FFFD.
std::string encode(const Message& message);
/// Parses a line without its '\n'; CommError for anything that encode does not write.
Message decode(std::string_view line);

}  // namespace tessera
