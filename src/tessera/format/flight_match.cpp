#include "tessera/format/flight_match.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// "all_reduce" or "send 0->1".
std::string_view without_backend(const FlightEntry& entry) {
  const std::string_view name = entry.profiling_name;
  const size_t colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

// The two numbers of "0->1".
std::optional<std::pair<GroupRank, GroupRank>> ranks_around(std::string_view text,
                                                            std::string_view arrow, size_t size) {
  const size_t at = text.find(arrow);
  if (at == std::string_view::npos) return std::nullopt;
  const auto left = to_integer(text.substr(0, at));
  const auto right = to_integer(text.substr(at + arrow.size()));
  const auto exists = [&](int64_t rank) { return rank >= 0 && rank < static_cast<int64_t>(size); };
  if (!left || !right || !exists(*left) || !exists(*right)) return std::nullopt;
  return std::pair{GroupRank{*left}, GroupRank{*right}};
}

GlobalRank global(const FlightGroup& group, GroupRank rank) {
  return group.ranks[static_cast<size_t>(rank.value)];
}

}  // namespace

const FlightGroup& group_of(const FlightDump& dump, const FlightEntry& entry) {
  const auto group = std::ranges::find(dump.groups, entry.group_id, &FlightGroup::id);
  TSR_ASSERT(group != dump.groups.end(), "entry ", entry.record_id, " is of group ", entry.group_id,
             ", which the dump lacks");
  return *group;
}

std::optional<FlightMessage> message_of(const FlightGroup& group, const FlightEntry& entry) {
  const std::string_view name = without_backend(entry);
  const size_t size = group.ranks.size();
  if (!entry.is_p2p) return std::nullopt;
  if (name.starts_with("send ")) {
    if (const auto ends = ranks_around(name.substr(5), "->", size)) {
      return FlightMessage{.source = ends->first, .destination = ends->second};
    }
  }
  if (name.starts_with("recv ")) {
    if (const auto ends = ranks_around(name.substr(5), "<-", size)) {
      return FlightMessage{.source = ends->second, .destination = ends->first};
    }
  }
  return std::nullopt;
}

std::string operation_name(const FlightGroup& group, const FlightEntry& entry) {
  const std::string_view name = without_backend(entry);
  const auto message = message_of(group, entry);
  if (!message) return std::string(name);
  return name.starts_with("send") ? concat("send to rank ", global(group, message->destination))
                                  : concat("recv from rank ", global(group, message->source));
}

int64_t sequence_of(const FlightEntry& entry) {
  return entry.is_p2p ? entry.p2p_seq_id : entry.collective_seq_id;
}

const std::string& label_of(const FlightGroup& group) {
  return group.desc.empty() ? group.name : group.desc;
}

RankGroup FlightMatch::members() const {
  if (!message) return group->ranks;
  return {global(*group, message->source), global(*group, message->destination)};
}

std::vector<FlightMatch> flight_matches(std::span<const FlightDump> dumps) {
  // Groups with the same name differ by their ranks: every pipeline stage has a "dp".
  std::map<std::pair<std::string, RankGroup>, size_t> groups;
  std::map<std::tuple<size_t, std::optional<FlightMessage>, int64_t>, FlightMatch> found;
  for (const FlightDump& dump : dumps) {
    std::map<int64_t, size_t> number;  // Of a group, by its id on this rank.
    for (const FlightGroup& group : dump.groups) {
      number[group.id] = groups.insert({{group.name, group.ranks}, groups.size()}).first->second;
    }
    for (const FlightEntry& entry : dump.entries) {
      const FlightGroup& group = group_of(dump, entry);
      const auto message = message_of(group, entry);
      if (entry.is_p2p && !message) continue;  // The other rank is unknown.
      FlightMatch& match = found[{number[group.id], message, sequence_of(entry)}];
      if (match.participants.empty()) match = {&group, message, sequence_of(entry)};
      match.participants.push_back({&dump, &entry});
    }
  }
  std::vector<FlightMatch> matches;
  for (auto& [key, match] : found) matches.push_back(std::move(match));
  return matches;
}

}  // namespace tessera
