#include "tessera/draw/sequence_split.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr int64_t kMostRuns = 512;     // Per rank; more cannot be told apart.
constexpr int64_t kShownPerRank = 16;  // Positions of each rank, if there are more runs.
constexpr int64_t kWidestBar = 96;     // Characters.
constexpr int64_t kNarrowestBar = 16;

std::string pad_left(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

double mean_of(const std::vector<int64_t>& pairs) {
  const auto sum = static_cast<double>(std::reduce(pairs.begin(), pairs.end()));
  return sum / static_cast<double>(pairs.size());
}

// A character shows a stretch of the sequence: full if the rank holds most of it. Lengths count in
// units of which a character has `shown`, and a position `width`.
std::string bar(const Runs& runs, int64_t shown, int64_t width) {
  std::vector<int64_t> held(static_cast<size_t>(width));
  for (const Span& run : runs) {
    const int64_t end = std::min(run.end, shown) * width;
    for (int64_t at = run.begin * width; at < end;) {
      const int64_t cell = at / shown;
      const int64_t next = std::min(end, (cell + 1) * shown);
      held[static_cast<size_t>(cell)] += next - at;
      at = next;
    }
  }
  std::string text;
  for (const int64_t part : held) text += 2 * part > shown ? "█" : part > 0 ? "▒" : "·";
  return text;
}

}  // namespace

int64_t SequenceSplit::shown() const {
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    if (layout.runs(rank).size() > kMostRuns) {
      return std::min(layout.length(), kShownPerRank * layout.ranks());
    }
  }
  return layout.length();
}

SequenceSplit make_sequence_split(std::string_view name, const DocumentLengths& documents,
                                  int64_t ranks) {
  ContextLayout layout = make_context_layout(name, documents, ranks);
  std::vector<int64_t> pairs = causal_pairs(layout, documents);
  return {std::string(name), documents, std::move(layout), std::move(pairs)};
}

std::string balance_text(const SequenceSplit& split) {
  const auto busiest = std::ranges::max_element(split.pairs);
  if (*busiest == std::ranges::min(split.pairs)) {
    return concat("all ranks compute ", with_thousands(*busiest), " pairs of causal attention");
  }
  const double more = 100 * (static_cast<double>(*busiest) / mean_of(split.pairs) - 1);
  std::ostringstream out;
  out.precision(more < 10 ? 2 : 0);
  out << std::fixed << "rank " << busiest - split.pairs.begin() << " of the cp group computes "
      << more << " % more causal pairs than the mean";
  return std::move(out).str();
}

std::string draw_terminal(const SequenceSplit& split, const TerminalOptions& options) {
  const ContextLayout& layout = split.layout;
  const int64_t shown = split.shown();
  std::ostringstream out;
  out << bold(concat("sequence of ", with_thousands(layout.length()), " tokens over cp ",
                     layout.ranks(), ", ", split.name),
              options.color);
  if (split.documents.size() > 1) out << ", " << split.documents.size() << " documents";
  if (shown < layout.length()) out << "; the first " << shown << " are shown";
  out << "\n";
  if (layout.ranks() <= kMostSplitRows) {
    const size_t label = concat("cp ", layout.ranks() - 1).size();
    const size_t number = with_thousands(std::ranges::max(split.pairs)).size();
    const auto used = static_cast<int64_t>(label + number + 10);
    const int64_t room = std::clamp(options.width - used, kNarrowestBar, kWidestBar);
    for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
      std::string name = concat("cp ", rank);
      name.resize(label, ' ');
      const int64_t pairs = split.pairs[static_cast<size_t>(rank)];
      out << name << "  " << bar(layout.runs(rank), shown, std::min(room, shown)) << "  "
          << pad_left(with_thousands(pairs), number) << " pairs\n";
    }
  }
  out << balance_text(split) << "\n\n";
  return std::move(out).str();
}

}  // namespace tessera
