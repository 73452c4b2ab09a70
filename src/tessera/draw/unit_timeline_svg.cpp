#include <algorithm>
#include <cmath>
#include <sstream>

#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/draw/internal/markup.h"
#include "tessera/draw/internal/svg.h"
#include "tessera/draw/internal/unit_colors.h"
#include "tessera/draw/unit_timeline.h"

namespace tessera {

using namespace draw::detail;

namespace {

// In pixels.
constexpr double kMargin = 28;
constexpr double kHeader = 84;  // Title and subtitle.
constexpr double kRow = 34;
constexpr double kRowGap = 6;
constexpr double kInset = 6;  // From the memory's band to the blocks in it.
constexpr double kComputeGap = 14;
constexpr double kRuler = 46;
constexpr double kLegend = 30;
constexpr double kChart = 1080;
constexpr double kFigures = 96;     // Right of a row: for how long it was in memory.
constexpr double kLetter = 7.4;     // Width of a letter of a name.
constexpr double kBlockLetter = 7;  // Of a text in a block.

constexpr const char* kStyle = R"(.quiet { font-size: 13px; fill: #5a6072; }
.unit { font-size: 13px; }
.figure { font-size: 12px; fill: #5a6072; text-anchor: end; }
.mark { font-size: 11px; fill: #5a6072; text-anchor: middle; }
.what { font-size: 11px; text-anchor: middle; }
.idle { fill: #e6e9ef; }
.held { fill: #d3d9e6; }
.line { stroke: #c4c9d6; stroke-width: 1; }
.block { stroke: #ffffff; stroke-width: 0.5; }
)";
constexpr const char* kDarkStyle = R"(.quiet, .figure, .mark { fill: #a3aabc; }
.idle { fill: #2f3646; }
.held { fill: #46516b; }
.line { stroke: #4a5366; }
.block { stroke: #14171e; }
.what { fill: #1f2430; }
)";

double total(const UnitRow& row, UnitAction action) {
  double sum = 0;
  for (const UnitEvent& event : row.events) {
    if (event.action == action) sum += event.time.length();
  }
  return sum;
}

class Drawing {
 public:
  explicit Drawing(const UnitTimeline& timeline) : timeline_(timeline) {
    size_t longest = std::max(timeline.compute.name.size(), timeline.exchange.name.size());
    for (const UnitRow& row : timeline.units) longest = std::max(longest, row.name.size());
    time_ = {kMargin + kLetter * static_cast<double>(longest) + 16, kChart / timeline.end};
  }

  std::string draw(std::string_view title, std::string_view subtitle) {
    const auto units = static_cast<double>(timeline_.units.size());
    const double height = kHeader + kRow + exchange_height() + kComputeGap +
                          (kRow + kRowGap) * units + kRuler + kLegend + kMargin / 2;
    open_svg(out_, {.width = std::llround(std::ceil(right() + kMargin)),
                    .height = std::llround(std::ceil(height)),
                    .style = kStyle,
                    .dark_style = kDarkStyle});
    svg_text(out_, "title", kMargin, 40, title);
    svg_text(out_, "quiet", kMargin, 62, subtitle);
    draw_compute(kHeader);
    if (exchange_height() > 0) draw_exchange(kHeader + kRow + kRowGap);
    double y = kHeader + kRow + exchange_height() + kComputeGap;
    for (const UnitRow& row : timeline_.units) {
      draw_unit(row, y);
      y += kRow + kRowGap;
    }
    svg_ruler(out_, time_, timeline_.end, y);
    draw_legend(y + kRuler);
    out_ << kSvgEnd;
    return std::move(out_).str();
  }

 private:
  double right() const { return time_.x_of(timeline_.end) + kFigures; }
  double exchange_height() const { return timeline_.exchange.events.empty() ? 0 : kRow + kRowGap; }

  void label(const UnitRow& row, double y, std::string_view figure) {
    svg_text(out_, "unit", kMargin, y + kRow / 2 + 5, row.name);
    svg_text(out_, "figure", right(), y + kRow / 2 + 4, figure);
  }

  void draw_compute(double y) {
    const double waits = total(timeline_.compute, UnitAction::kWait);
    label(timeline_.compute, y, concat("waits ", percent(waits / timeline_.end)));
    svg_rect(out_, "idle", {time_.x_of(0), y, kChart, kRow}, "");
    out_ << "/>\n";
    for (const UnitEvent& event : timeline_.compute.events) draw_block(event, y, kRow);
  }

  void draw_line(double y) {
    out_ << R"(<path class="line" fill="none" d="M)" << rounded(time_.x_of(0)) << " "
         << y + kRow / 2 << "H" << rounded(time_.x_of(timeline_.end)) << "\"/>\n";
  }

  void draw_exchange(double y) {
    label(timeline_.exchange, y, "");
    draw_line(y);
    for (const UnitEvent& event : timeline_.exchange.events) {
      draw_block(event, y + kInset, kRow - 2 * kInset);
    }
  }

  // The line of a unit without memory lies behind its blocks.
  void draw_unit(const UnitRow& row, double y) {
    label(row, y, concat(fixed(total(row, figure_), 1), " ms"));
    draw_line(y);
    for (const UnitEvent& event : row.events) {
      if (event.action == UnitAction::kHeld) {
        draw_block(event, y, kRow);
      } else {
        draw_block(event, y + kInset, kRow - 2 * kInset);
      }
    }
  }

  void draw_block(const UnitEvent& event, double y, double height) {
    const double width = event.time.length() * time_.per_time;
    const bool held = event.action == UnitAction::kHeld;
    svg_rect(out_, held ? "held" : "block", {time_.x_of(event.time.start), y, width, height},
             held ? "" : to_hex(unit_color(event.action)));
    out_ << "><title>" << escape_xml(event.unit) << ", " << unit_words(event.action) << ": "
         << fixed(event.time.start, 2) << " to " << fixed(event.time.end, 2)
         << " ms</title></rect>\n";
    const std::string_view words = to_string(event.action);
    const bool fits = kBlockLetter * static_cast<double>(words.size()) < width;
    if (held || !fits) return;
    svg_text(out_, "what", time_.x_of(event.time.start) + width / 2, y + height / 2 + 4, words);
  }

  void draw_legend(double y) {
    double x = kMargin;
    for (const UnitAction action : actions_) {
      const bool held = action == UnitAction::kHeld;
      x = svg_swatch(out_, x, y, held ? "held" : "swatch", held ? "" : to_hex(unit_color(action)));
      x = svg_legend_text(out_, x, y, unit_words(action));
    }
    svg_legend_text(
        out_, x, y,
        concat("times in ms; right: ", figure_ == UnitAction::kHeld ? "in memory" : "attention"));
  }

  // Beside each unit: of shards the time in memory, otherwise that of attention.
  UnitAction figure_of() const {
    const bool attends_only = std::ranges::find(actions_, UnitAction::kAttend) != actions_.end() &&
                              std::ranges::find(actions_, UnitAction::kHeld) == actions_.end();
    return attends_only ? UnitAction::kAttend : UnitAction::kHeld;
  }

  const UnitTimeline& timeline_;
  std::vector<UnitAction> actions_ = shown_actions(timeline_);
  UnitAction figure_ = figure_of();
  SvgTime time_;
  std::ostringstream out_;
};

}  // namespace

std::string draw_svg(const UnitTimeline& timeline, std::string_view title,
                     std::string_view subtitle) {
  return Drawing(timeline).draw(title, subtitle);
}

}  // namespace tessera
