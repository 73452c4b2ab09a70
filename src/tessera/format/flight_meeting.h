#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/flight_dump.h"

namespace tessera TSR_API {

/// The group of an entry; `dump` has it.
const FlightGroup& group_of(const FlightDump& dump, const FlightEntry& entry);

/// Who sends to whom, as group ranks.
struct FlightMessage {
  GroupRank source = {};
  GroupRank destination = {};

  friend auto operator<=>(const FlightMessage&, const FlightMessage&) = default;
};
/// What "send 0->1" and "recv 1<-0" say; nothing for collectives and for ranks outside the group.
std::optional<FlightMessage> message_of(const FlightGroup& group, const FlightEntry& entry);

/// "all_reduce", "send to rank 3": the operation without its back end, with global ranks.
std::string operation_name(const FlightGroup& group, const FlightEntry& entry);
/// The number under which the other ranks know the operation.
int64_t sequence_of(const FlightEntry& entry);
/// The name that people give the group.
const std::string& label_of(const FlightGroup& group);

/// One rank's part in an operation.
struct FlightSeat {
  const FlightDump* dump = nullptr;
  const FlightEntry* entry = nullptr;
};

/// Entries of several ranks that are one operation: a collective, or a message. Points into the
/// dumps.
struct FlightMeeting {
  const FlightGroup* group = nullptr;  // As one of the ranks knows it.
  std::optional<FlightMessage> message = std::nullopt;
  int64_t sequence = 0;
  std::vector<FlightSeat> seats = {};  // In the order of the dumps.

  /// Who has to come.
  RankGroup members() const;
};

/// Every operation of the dumps; those of one group, and of one direction between two of its
/// members, follow each other by number.
std::vector<FlightMeeting> flight_meetings(std::span<const FlightDump> dumps);

}  // namespace tessera
