#include "tessera/format/flight_analysis.h"

#include <algorithm>
#include <map>
#include <set>

#include "tessera/base/check.h"
#include "tessera/format/flight_difference.h"
#include "tessera/format/flight_match.h"

namespace tessera {
namespace {

using Ranks = std::set<GlobalRank>;
using Dumps = std::map<GlobalRank, const FlightDump*>;

RankGroup listed(const Ranks& ranks) {
  return {ranks.begin(), ranks.end()};
}

bool has_ended(const FlightEntry& entry) {
  return entry.state == FlightState::kCompleted;
}

FlightOperation operation_of(const FlightDump& dump, const FlightEntry& entry) {
  const FlightGroup& group = group_of(dump, entry);
  return {operation_name(group, entry), sequence_of(entry), label_of(group)};
}

std::optional<FlightPlace> place_of(const FlightDump& dump) {
  if (dump.entries.empty()) return std::nullopt;
  const auto pending = std::ranges::find_if_not(dump.entries, has_ended);
  const bool ended = pending == dump.entries.end();
  const FlightEntry& entry = ended ? dump.entries.back() : *pending;
  const int64_t begin =
      ended ? entry.time_completed_ns.value_or(entry.time_created_ns) : entry.time_created_ns;
  return FlightPlace{operation_of(dump, entry), ended,
                     std::max<int64_t>(0, dump.created_ns - begin)};
}

// The last operation that the rank reached in this group, or for this message.
int64_t reached(const FlightDump& dump, const FlightMatch& match) {
  int64_t most = 0;
  for (const FlightGroup& group : dump.groups) {
    if (group.name != match.group->name || group.ranks != match.group->ranks) continue;
    if (!match.message) return group.last_enqueued;
    for (const FlightEntry& entry : dump.entries) {
      const bool same = entry.group_id == group.id && message_of(group, entry) == match.message;
      if (same) most = std::max(most, sequence_of(entry));
    }
  }
  return most;
}

// Members that have not arrived; if all members with a dump have, the members without one.
Ranks absent_from(const FlightMatch& match, const Dumps& dumps) {
  Ranks late;
  Ranks unknown;
  for (const GlobalRank rank : match.members()) {
    const auto dump = dumps.find(rank);
    if (dump == dumps.end()) {
      unknown.insert(rank);
    } else if (reached(*dump->second, match) < match.sequence) {
      late.insert(rank);
    }
  }
  return late.empty() ? unknown : late;
}

std::optional<FlightWait> wait_in(const FlightMatch& match, const Dumps& dumps) {
  FlightWait wait;
  for (const auto& [dump, entry] : match.participants) {
    if (has_ended(*entry)) continue;
    if (wait.waiting.empty()) wait.operation = operation_of(*dump, *entry);
    wait.waiting.push_back(dump->rank);
    wait.for_ns = std::max(wait.for_ns, dump->created_ns - entry->time_created_ns);
  }
  if (wait.waiting.empty()) return std::nullopt;
  std::ranges::sort(wait.waiting);
  wait.absent = listed(absent_from(match, dumps));
  return wait;
}

bool same_row(const FlightMatch& a, const FlightMatch& b) {
  return a.group->name == b.group->name && a.group->ranks == b.group->ranks &&
         a.message == b.message;
}

// For each group or direction, the first operation with an absent rank, otherwise the first
// incomplete one: later operations cannot proceed.
std::vector<FlightWait> first_waits(std::span<const FlightMatch> matches, const Dumps& dumps) {
  std::vector<FlightWait> waits;
  const FlightMatch* row = nullptr;
  for (const FlightMatch& match : matches) {
    const bool same = row != nullptr && same_row(*row, match);
    if (same && !waits.back().absent.empty()) continue;
    auto wait = wait_in(match, dumps);
    if (!wait) continue;
    if (same && wait->absent.empty()) continue;
    if (same) waits.pop_back();
    waits.push_back(std::move(*wait));
    row = &match;
  }
  return waits;
}

// All ranks that wait for the rank, directly or indirectly.
Ranks held_up_by(GlobalRank rank, std::span<const FlightWait> waits) {
  Ranks held{rank};
  for (size_t before = 0; before != held.size();) {
    before = held.size();
    for (const FlightWait& wait : waits) {
      const bool waits_for_held = std::ranges::any_of(
          wait.absent, [&](GlobalRank absent) { return held.contains(absent); });
      if (waits_for_held) held.insert(wait.waiting.begin(), wait.waiting.end());
    }
  }
  held.erase(rank);
  return held;
}

FlightLag lag_of(GlobalRank rank, std::span<const FlightWait> waits) {
  FlightLag lag{.rank = rank};
  Ranks others = held_up_by(rank, waits);
  for (const FlightWait& wait : waits) {
    if (std::ranges::find(wait.absent, rank) == wait.absent.end()) continue;
    lag.waits.push_back(wait);
    for (const GlobalRank waiting : wait.waiting) others.erase(waiting);
  }
  lag.indirectly = listed(others);
  return lag;
}

// Sorts the waits into those for a rank that waits for nobody, those in a cycle, and those in which
// nobody is absent.
void explain(std::vector<FlightWait> waits, FlightAnalysis& analysis) {
  std::ranges::copy_if(waits, std::back_inserter(analysis.together),
                       [](const FlightWait& wait) { return wait.absent.empty(); });
  std::erase_if(waits, [](const FlightWait& wait) { return wait.absent.empty(); });
  Ranks waiting;
  Ranks awaited;
  for (const FlightWait& wait : waits) {
    waiting.insert(wait.waiting.begin(), wait.waiting.end());
    awaited.insert(wait.absent.begin(), wait.absent.end());
  }
  Ranks explained;
  for (const GlobalRank rank : awaited) {
    if (waiting.contains(rank)) continue;
    analysis.behind.push_back(lag_of(rank, waits));
    explained.merge(held_up_by(rank, waits));
  }
  std::ranges::copy_if(waits, std::back_inserter(analysis.circle), [&](const FlightWait& wait) {
    return !explained.contains(wait.waiting.front());
  });
}

}  // namespace

std::string to_string(const FlightOperation& operation) {
  return concat(operation.name, " #", operation.sequence, " of group ", operation.group);
}

void check_one_run(std::span<const FlightDump> dumps, std::span<const std::string> origins) {
  TSR_CHECK(!dumps.empty(), "no dumps were given; name the files that the ranks wrote");
  std::map<GlobalRank, size_t> seen;
  for (size_t i = 0; i < dumps.size(); ++i) {
    const FlightDump& first = dumps.front();
    const FlightDump& dump = dumps[i];
    const std::string both = concat(origins.front(), " and ", origins[i]);
    TSR_CHECK(dump.job == first.job, both, " are from different jobs, '", first.job, "' and '",
              dump.job, "'; give the dumps of one job");
    TSR_CHECK(dump.restart == first.restart, both, " are from different attempts, restart ",
              first.restart, " and ", dump.restart, "; give the dumps of one attempt");
    TSR_CHECK(dump.world_size == first.world_size, both, " are from different worlds, of ",
              first.world_size, " and ", dump.world_size, " ranks; give the dumps of one job");
    const auto [other, fresh] = seen.insert({dump.rank, i});
    TSR_CHECK(fresh, origins[other->second], " and ", origins[i], " are both from rank ", dump.rank,
              "; give one dump per rank");
  }
}

FlightAnalysis analyse_flight(std::span<const FlightDump> dumps) {
  FlightAnalysis analysis;
  Dumps by_rank;
  for (const FlightDump& dump : dumps) by_rank[dump.rank] = &dump;
  for (const auto& [rank, dump] : by_rank) {
    analysis.world_size = dump->world_size;
    analysis.ranks.push_back({rank, dump->host, dump->reason, place_of(*dump)});
  }
  for (int64_t rank = 0; rank < analysis.world_size; ++rank) {
    if (!by_rank.contains(GlobalRank{rank})) analysis.missing.push_back(GlobalRank{rank});
  }
  const std::vector<FlightMatch> matches = flight_matches(dumps);
  explain(first_waits(matches, by_rank), analysis);
  analysis.differences = differences_in(matches);
  return analysis;
}

}  // namespace tessera
