#include <algorithm>
#include <cmath>
#include <optional>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/draw/internal/terminal_parts.h"
#include "tessera/draw/internal/unit_colors.h"
#include "tessera/draw/unit_timeline.h"

namespace tessera {

using namespace draw::detail;

namespace {

constexpr size_t kMostUnits = 64;

using Cells = std::vector<std::optional<UnitAction>>;

// The letter of an action, for terminals without colours.
char letter_of(UnitAction action) {
  switch (action) {
    case UnitAction::kHeld:
      return '=';
    case UnitAction::kWait:
      return 'w';
    default:
      return static_cast<char>(to_string(action).front() - 'a' + 'A');
  }
}

class Drawing {
 public:
  Drawing(const UnitTimeline& timeline, const TerminalOptions& options)
      : timeline_(timeline), options_(options) {
    size_t longest = timeline.compute.name.size();
    if (has_exchange()) longest = std::max(longest, timeline.exchange.name.size());
    for (const UnitRow& row : timeline.units) {
      longest = std::max(longest, visible(row.name).size());
    }
    time_.label = static_cast<int64_t>(longest) + 1;
    time_.end = timeline.end;
    const int64_t columns = std::max<int64_t>(1, options.width - time_.label);
    time_.per_time = static_cast<double>(columns) / timeline.end;
  }

  std::string draw() const {
    std::string text = line(timeline_.compute, ".");
    if (has_exchange()) text += line(timeline_.exchange, " ");
    for (const UnitRow& row : timeline_.units) text += line(row, " ");
    return concat(text, time_ruler(time_, options_), legend(), "\n");
  }

 private:
  bool has_exchange() const { return !timeline_.exchange.events.empty(); }

  // What lasts at all takes a column, so that no short gather is hidden; waits are not exaggerated.
  Cells cells_of(const UnitRow& row) const {
    Cells cells(static_cast<size_t>(std::max<int64_t>(1, time_.column(time_.end))));
    for (const UnitEvent& event : row.events) {
      const bool waits = event.action == UnitAction::kWait;
      const auto first =
          static_cast<size_t>(waits ? time_.column(event.time.start)
                                    : static_cast<int64_t>(std::floor(time_.at(event.time.start))));
      const auto last =
          std::max(first + (waits ? 0 : 1), static_cast<size_t>(time_.column(event.time.end)));
      for (size_t c = first; c < std::min(last, cells.size()); ++c) cells[c] = event.action;
    }
    return cells;
  }

  std::string line(const UnitRow& row, const std::string& nothing) const {
    std::string text = visible(row.name);
    text.resize(static_cast<size_t>(time_.label), ' ');
    const Cells cells = cells_of(row);
    for (auto begin = cells.begin(); begin != cells.end();) {
      const auto end = std::find_if(begin, cells.end(), [&](const auto& c) { return c != *begin; });
      const auto width = static_cast<size_t>(end - begin);
      const std::optional<UnitAction>& action = *begin;
      text += action ? painted(*action, width) : repeated(nothing, width);
      begin = end;
    }
    return text + "\n";
  }

  static std::string repeated(std::string_view sign, size_t width) {
    std::string text;
    for (size_t i = 0; i < width; ++i) text += sign;
    return text;
  }

  std::string painted(UnitAction action, size_t width) const {
    const bool plain = options_.color == ColorMode::kNone;
    if (plain) return std::string(width, letter_of(action));
    if (action == UnitAction::kHeld)
      return in_color(repeated("━", width), unit_color(action), options_.color);
    return on_color(std::string(width, ' '), unit_color(action), options_.color);
  }

  std::string legend() const {
    TerminalLegend legend(options_.width);
    const bool plain = options_.color == ColorMode::kNone;
    for (const UnitAction action : shown_actions(timeline_)) {
      const std::string sign = plain ? std::string(1, letter_of(action)) : "   ";
      legend.add(sign, unit_words(action),
                 [&](const std::string& text) { return painted(action, text.size()); });
    }
    legend.add("times:", "ms");
    return legend.text();
  }

  const UnitTimeline& timeline_;
  TerminalOptions options_;
  TerminalTime time_ = {};
};

}  // namespace

std::string draw_terminal(const UnitTimeline& timeline, const TerminalOptions& options) {
  return Drawing(timeline, options).draw();
}

bool fits_terminal(const UnitTimeline& timeline) {
  return timeline.units.size() <= kMostUnits;
}

}  // namespace tessera
