#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "tessera/base/export.h"
#include "tessera/launch/failure_block.h"

namespace tessera TSR_API {

/// What launchers of several nodes tell each other, version 3.
///
/// A TCP connection from each member to node 0's launcher, the coordinator. A message is one line:
/// a JSON object in ASCII, at most kLongestMessage bytes with its '\n', whose "type" is one of the
/// words below. A line that is anything else, an unknown type or key, a missing or repeated field,
/// or a number out of range ends the connection.
///
///   member to coordinator            coordinator to member
///   join     first, and once         welcome  admitted; wait
///   healthy  all its ranks have met  refuse   not admitted; later: try again
///   failed   its first failure       start    a round: number the ranks and start them
///   done     all its ranks ended 0   stop     a failure somewhere: stop the ranks
///   stopped  none of its ranks runs  end      the job is over: leave with this code
///   ping     every second            ping     every second
///
/// Rounds count from 0. What is said about another round than the present one is ignored.
inline constexpr int64_t kProtocolVersion = 3;
inline constexpr size_t kLongestMessage = size_t{64} << 10;

struct JoinMessage {
  int64_t version = kProtocolVersion;
  std::string id = "";
  int64_t nnodes = 1;
  int64_t nproc = 1;
  int64_t node = -1;  // -1: whichever is free.
  std::string host = "";
  friend bool operator==(const JoinMessage&, const JoinMessage&) = default;
};

struct WelcomeMessage {
  friend bool operator==(const WelcomeMessage&, const WelcomeMessage&) = default;
};

struct RefuseMessage {
  std::string reason = "";
  bool later = false;
  friend bool operator==(const RefuseMessage&, const RefuseMessage&) = default;
};

struct StartMessage {
  int64_t round = 0;
  int64_t restart = 0;  // How often the job was restarted.
  int64_t max_restarts = 0;
  int64_t node = 0;  // The receiver's number.
  std::string master_addr = "";
  int64_t master_port = 0;
  std::string secret = "";  // What the ranks must know to use the store.
  friend bool operator==(const StartMessage&, const StartMessage&) = default;
};

struct HealthyMessage {
  int64_t round = 0;
  friend bool operator==(const HealthyMessage&, const HealthyMessage&) = default;
};

struct FailedMessage {
  int64_t round = 0;
  Failure failure = {};
  friend bool operator==(const FailedMessage&, const FailedMessage&) = default;
};

struct DoneMessage {
  int64_t round = 0;
  friend bool operator==(const DoneMessage&, const DoneMessage&) = default;
};

struct StopMessage {
  int64_t round = 0;
  Failure failure = {};
  Verdict verdict = {};
  friend bool operator==(const StopMessage&, const StopMessage&) = default;
};

struct StoppedMessage {
  int64_t round = 0;
  friend bool operator==(const StoppedMessage&, const StoppedMessage&) = default;
};

struct EndMessage {
  std::optional<Failure> failure = {};  // None: all went well.
  friend bool operator==(const EndMessage&, const EndMessage&) = default;
};

struct PingMessage {
  friend bool operator==(const PingMessage&, const PingMessage&) = default;
};

using Message =
    std::variant<JoinMessage, WelcomeMessage, RefuseMessage, StartMessage, HealthyMessage,
                 FailedMessage, DoneMessage, StopMessage, StoppedMessage, EndMessage, PingMessage>;

/// One line with its '\n'. Texts that would make it too long are cut; bytes that are no UTF-8 are
/// replaced by U+FFFD.
std::string encode(const Message& message);
/// A line without its '\n'; CommError for anything that encode does not write.
Message decode(std::string_view line);

}  // namespace tessera
