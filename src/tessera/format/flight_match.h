#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/flight_dump.h"

namespace tessera TSR_API {

/// The group of an entry of `dump`.
const FlightGroup& group_of(const FlightDump& dump, const FlightEntry& entry);

/// A message from one member of a group to another.
struct FlightMessage {
  GroupRank source = {};       // Group rank of the sender.
  GroupRank destination = {};  // Group rank of the receiver.

  friend auto operator<=>(const FlightMessage&, const FlightMessage&) = default;
};
/// The ranks in "send 0->1" and "recv 1<-0"; nothing for collectives and ranks outside the group.
std::optional<FlightMessage> message_of(const FlightGroup& group, const FlightEntry& entry);

/// "all_reduce", "send to rank 3": the operation without its back end, with global ranks.
std::string operation_name(const FlightGroup& group, const FlightEntry& entry);
/// The sequence number by which other ranks know the operation.
int64_t sequence_of(const FlightEntry& entry);
/// The group's name for display.
const std::string& label_of(const FlightGroup& group);

/// One rank's part in an operation.
struct FlightParticipant {
  const FlightDump* dump = nullptr;    // That the rank wrote.
  const FlightEntry* entry = nullptr;  // For the operation, in `dump`.
};

/// The entries of several ranks for one operation: a collective or a message. Points into the
/// dumps.
struct FlightMatch {
  const FlightGroup* group = nullptr;                   // From one of the ranks' dumps.
  std::optional<FlightMessage> message = std::nullopt;  // Nothing for a collective.
  int64_t sequence = 0;  // The number in the group, or between the two ranks.
  std::vector<FlightParticipant> participants = {};  // In the order of the dumps.

  /// The ranks that take part in the operation.
  RankGroup members() const;
};

/// Every operation of the dumps, by number within each group and within each direction between two
/// of its members.
std::vector<FlightMatch> flight_matches(std::span<const FlightDump> dumps);

}  // namespace tessera
