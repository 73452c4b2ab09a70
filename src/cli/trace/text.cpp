#include <algorithm>
#include <map>

#include "cli/table.h"
#include "cli/trace/text.h"
#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/topology/rank_text.h"

namespace tessera::cli {
namespace {

constexpr size_t kMostRows = 64;  // In the table of ranks.
constexpr size_t kMostItems = 8;  // In each list below it.
constexpr size_t kMostRankText = 40;
constexpr size_t kHostWidth = 20;

std::string ranks_text(const RankGroup& ranks) {
  return concat(ranks.size() == 1 ? "rank " : "ranks ", short_list(ranks, kMostRankText));
}

std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "…";
}

// Writes the first lines of a list, and how many more there are.
template <class List, class Write>
void write_first(const List& list, std::ostream& out, Write write) {
  for (size_t i = 0; i < std::min(list.size(), kMostItems); ++i) write(list[i]);
  if (list.size() > kMostItems) out << "… and " << list.size() - kMostItems << " more\n";
}

void write_head(const std::string& title, const FlightAnalysis& analysis, ColorMode color,
                std::ostream& out) {
  const auto count = static_cast<int64_t>(analysis.ranks.size());
  out << bold(concat(title, ": dumps of ", with_thousands(count), " of ",
                     with_thousands(analysis.world_size),
                     analysis.world_size == 1 ? " rank" : " ranks"),
              color)
      << "\n";
  std::map<std::string, RankGroup> by_reason;
  for (const FlightRank& rank : analysis.ranks) by_reason[rank.reason].push_back(rank.rank);
  for (const auto& [reason, ranks] : by_reason) {
    out << "written by " << ranks_text(ranks) << ": " << reason << "\n";
  }
}

std::string when(const FlightPlace& place) {
  const std::string time = time_text(place.for_ns);
  return place.ended ? concat("left it ", time, " ago") : concat("in it for ", time);
}

void write_ranks(const FlightAnalysis& analysis, std::ostream& out) {
  Table table;
  table.add_column("rank", Align::kRight);
  table.add_column("host");
  table.add_column("operation");
  table.add_column("when it wrote the dump");
  for (const FlightRank& rank : analysis.ranks) {
    if (static_cast<size_t>(&rank - analysis.ranks.data()) == kMostRows) break;
    const auto& place = rank.place;
    table.add_row({concat(rank.rank), cut(rank.host, kHostWidth),
                   place ? to_string(place->operation) : "none yet", place ? when(*place) : ""});
  }
  out << "\n" << table.to_string();
  if (analysis.ranks.size() > kMostRows) {
    out << "… and " << analysis.ranks.size() - kMostRows << " more ranks\n";
  }
}

// The position of the rank that others wait for.
std::string whereabouts(const FlightAnalysis& analysis, GlobalRank rank) {
  for (const FlightRank& known : analysis.ranks) {
    if (known.rank != rank) continue;
    if (!known.place) return "it has done no operation yet";
    const auto& [operation, ended, for_ns] = *known.place;
    return ended ? concat("it left ", to_string(operation), " ", time_text(for_ns), " ago")
                 : concat("it is in ", to_string(operation), " for ", time_text(for_ns));
  }
  return "it left no dump";
}

void write_lag(const FlightAnalysis& analysis, const FlightLag& lag, ColorMode color,
               std::ostream& out) {
  out << bold(concat("rank ", lag.rank, " is behind"), color) << ": "
      << whereabouts(analysis, lag.rank) << "\n";
  write_first(lag.waits, out, [&](const FlightWait& wait) {
    out << "  " << ranks_text(wait.waiting) << (wait.waiting.size() == 1 ? " waits" : " wait")
        << " for it in " << to_string(wait.operation) << " for " << time_text(wait.for_ns) << "\n";
  });
  if (!lag.indirectly.empty()) {
    out << "  " << ranks_text(lag.indirectly) << (lag.indirectly.size() == 1 ? " waits" : " wait")
        << " for those\n";
  }
}

void write_waits(const FlightAnalysis& analysis, ColorMode color, std::ostream& out) {
  write_first(analysis.behind, out,
              [&](const FlightLag& lag) { write_lag(analysis, lag, color, out); });
  if (!analysis.circle.empty()) out << bold("ranks wait for each other", color) << ":\n";
  write_first(analysis.circle, out, [&](const FlightWait& wait) {
    out << "  " << ranks_text(wait.waiting) << " for " << ranks_text(wait.absent) << " in "
        << to_string(wait.operation) << " for " << time_text(wait.for_ns) << "\n";
  });
  write_first(analysis.together, out, [&](const FlightWait& wait) {
    out << to_string(wait.operation) << ": all have come, " << ranks_text(wait.waiting)
        << (wait.waiting.size() == 1 ? " is" : " are") << " in it for " << time_text(wait.for_ns)
        << "\n";
  });
}

void write_differences(const FlightAnalysis& analysis, ColorMode color, std::ostream& out) {
  write_first(analysis.differences, out, [&](const FlightDifference& difference) {
    out << bold(concat("#", difference.operation.sequence, " of group ", difference.operation.group,
                       " differs"),
                color)
        << ":\n";
    for (const FlightVariant& variant : difference.variants) {
      out << "  " << ranks_text(variant.ranks) << ": " << variant.what << "\n";
    }
  });
}

}  // namespace

std::string time_text(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t seconds = ns / kSecond;
  if (ns < kSecond) return fixed(static_cast<double>(ns) / 1e6, 1) + " ms";
  if (seconds < 120) return fixed(static_cast<double>(ns) / 1e9, 1) + " s";
  if (seconds < 7200) return concat(seconds / 60, " min ", seconds % 60, " s");
  return concat(seconds / 3600, " h ", seconds / 60 % 60, " min");
}

void write_flight_text(const std::string& title, const FlightAnalysis& analysis, ColorMode color,
                       std::ostream& out) {
  write_head(title, analysis, color, out);
  write_ranks(analysis, out);
  out << "\n";
  if (!analysis.missing.empty()) {
    out << bold("no dump", color) << " of " << ranks_text(analysis.missing) << "\n";
  }
  write_waits(analysis, color, out);
  write_differences(analysis, color, out);
  if (analysis.behind.empty() && analysis.circle.empty() && analysis.differences.empty()) {
    out << "no rank is behind, and no operation differs\n";
  }
}

}  // namespace tessera::cli
