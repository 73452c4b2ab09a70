#include "tessera/draw/timeline_svg.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/draw/internal/markup.h"
#include "tessera/draw/internal/svg.h"

namespace tessera {

using namespace draw::detail;

namespace {

// In pixels.
constexpr double kMargin = 28;
constexpr double kHeader = 84;   // Title and subtitle.
constexpr double kCaption = 34;  // Above a timeline's first rank.
constexpr double kRow = 28;      // A block's height.
constexpr double kRowGap = 4;
constexpr double kRuler = 30;  // Below a timeline's last rank.
constexpr double kTimelineGap = 22;
constexpr double kLegend = 36;
constexpr double kFigures = 150;       // Right of a rank: bubble and peak.
constexpr double kWideBlock = 32;      // Maximum width of the shortest block.
constexpr double kThinBlock = 9;       // Its minimum width, unless the chart reaches kWidestChart.
constexpr double kChart = 1200;        // Preferred width of the chart.
constexpr double kWidestChart = 6000;  // Maximum width of the chart.
constexpr double kLargestFont = 13;
constexpr double kSmallestFont = 5;
constexpr double kLetter = 0.62;  // Width of a letter relative to the font size.

constexpr const char* kStyle = R"(.quiet { font-size: 13px; fill: #5a6072; }
.name { font-size: 16px; font-weight: bold; }
.rank { font-size: 13px; }
.figure { font-size: 12px; fill: #5a6072; text-anchor: end; }
.mark { font-size: 11px; fill: #5a6072; text-anchor: middle; }
.idle { fill: #e6e9ef; }
.line { stroke: #c4c9d6; stroke-width: 1; }
.block { stroke: #ffffff; stroke-width: 1; }
)";
constexpr const char* kDarkStyle = R"(.quiet, .figure, .mark { fill: #a3aabc; }
.idle { fill: #2f3646; }
.line { stroke: #4a5366; }
.block { stroke: #14171e; }
.number, .half { fill: #1f2430; }
)";

class Drawing {
 public:
  explicit Drawing(std::span<const Timeline> timelines)
      : timelines_(timelines), axis_(common_axis(timelines)) {
    const double shortest = axis_.shortest;
    const double fitting = axis_.end > 0 ? kChart / axis_.end : 0;
    if (shortest > 0) {
      per_time_ = std::clamp(fitting, kThinBlock / shortest, kWideBlock / shortest);
      per_time_ = std::min(per_time_, kWidestChart / axis_.end);
    }
    int64_t most_ranks = 0;
    for (const Timeline& timeline : timelines) most_ranks = std::max(most_ranks, timeline.pp());
    label_ = 56 + 9 * static_cast<double>(std::to_string(most_ranks - 1).size());
    reach_captions();
    size_numbers();
  }

  std::string draw(std::string_view title, std::string_view subtitle) {
    double height = kHeader + kLegend + kMargin;
    for (const Timeline& timeline : timelines_) height += height_of(timeline) + kTimelineGap;
    const double width = std::max(right() + kMargin, 760.0);
    open_svg(out_, {.width = std::llround(std::ceil(width)),
                    .height = std::llround(std::ceil(height)),
                    .style = style(),
                    .dark_style = kDarkStyle});
    text("title", kMargin, 40, title);
    text("quiet", kMargin, 62, subtitle);
    double y = kHeader;
    for (const Timeline& timeline : timelines_) {
      draw_timeline(timeline, y);
      y += height_of(timeline) + kTimelineGap;
    }
    draw_legend(y);
    out_ << kSvgEnd;
    return std::move(out_).str();
  }

 private:
  static double height_of(const Timeline& timeline) {
    return kCaption + static_cast<double>(timeline.pp()) * (kRow + kRowGap) + kRuler;
  }
  double x_of(double time) const { return kMargin + label_ + time * per_time_; }
  double right() const { return x_of(axis_.end) + kFigures; }

  static std::string caption_of(const Timeline& timeline) {
    return concat(timeline.shape_text(), "; ", timeline.result_text());
  }

  // Stretches short timelines to the length of the texts above them, whose fonts have 16 and 13
  // pixels, because figures follow to the right of both.
  void reach_captions() {
    double captions = 0;
    for (const Timeline& timeline : timelines_) {
      const auto name = static_cast<double>(timeline.name().size());
      const auto words = static_cast<double>(caption_of(timeline).size());
      captions = std::max(captions, kMargin + kLetter * (16 * 1.15 * name + 13 * words));
    }
    if (axis_.end > 0) per_time_ = std::max(per_time_, (captions - x_of(0)) / axis_.end);
  }

  // One font size for all numbers, so that the longest of them fits into the shortest block.
  void size_numbers() {
    size_t digits = 1;
    for (const Timeline& timeline : timelines_) {
      for (const TimelineBlock& block : timeline.blocks()) {
        for (const Task& task : block.action.tasks()) {
          digits = std::max(digits, std::to_string(task.microbatch).size());
        }
      }
    }
    const double fitting =
        (axis_.shortest * per_time_ - 2) / (kLetter * static_cast<double>(digits));
    font_ = std::clamp(fitting, kSmallestFont, kLargestFont);
  }

  // The rules for the numbers in blocks depend on the font size.
  std::string style() const {
    return concat(kStyle, ".number { font-size: ", rounded(font_), "px; text-anchor: middle; }\n",
                  ".half { font-size: ", rounded(std::min(font_, 10.5)),
                  "px; text-anchor: middle; }\n");
  }

  void text(std::string_view style, double x, double y, std::string_view content) {
    svg_text(out_, style, x, y, content);
  }

  void draw_timeline(const Timeline& timeline, double y) {
    out_ << R"(<text class="name" x=")" << kMargin << R"(" y=")" << y + 20 << "\">"
         << escape_xml(timeline.name()) << R"( <tspan class="quiet" font-weight="normal" dx="8">)"
         << escape_xml(caption_of(timeline)) << "</tspan></text>\n";
    text("figure", right() - 70, y + 20, "bubble");
    text("figure", right(), y + 20, "peak");
    const double top = y + kCaption;
    for (int64_t rank = 0; rank < timeline.pp(); ++rank) {
      draw_rank(timeline, GroupRank{rank}, top + static_cast<double>(rank) * (kRow + kRowGap));
    }
    svg_ruler(out_, {x_of(0), per_time_}, axis_.end,
              top + static_cast<double>(timeline.pp()) * (kRow + kRowGap));
  }

  void draw_rank(const Timeline& timeline, GroupRank rank, double y) {
    text("rank", kMargin, y + kRow / 2 + 5, concat("rank ", rank));
    rect("idle", x_of(0), y, timeline.makespan() * per_time_, kRow, "");
    out_ << "/>\n";
    for (const TimelineBlock& block : timeline.blocks_of(rank)) draw_block(timeline, block, y);
    const RankTimes& times = timeline.times_of(rank);
    const double share = timeline.makespan() > 0 ? times.bubble / timeline.makespan() : 0;
    text("figure", right() - 70, y + kRow / 2 + 4, percent(share));
    text("figure", right(), y + kRow / 2 + 4, std::to_string(times.peak_activations));
  }

  void rect(std::string_view style, double x, double y, double width, double height,
            std::string_view fill) {
    svg_rect(out_, style, {x, y, width, height}, fill);
  }

  void draw_block(const Timeline& timeline, const TimelineBlock& block, double y) {
    const auto tasks = block.action.tasks();
    const double height = kRow / static_cast<double>(tasks.size());
    const double width = block.time.length() * per_time_;
    for (size_t i = 0; i < tasks.size(); ++i) {
      const double top = y + static_cast<double>(i) * height;
      rect("block", x_of(block.time.start), top, width, height,
           to_hex(timeline.color_of(tasks[i])));
      out_ << "><title>" << block.action << ", " << block.time.start << " to " << block.time.end
           << "</title></rect>";
      draw_number(tasks[i], x_of(block.time.start), width, top + height / 2, tasks.size() == 2);
    }
  }

  void draw_number(const Task& task, double x, double width, double middle, bool half) {
    const std::string number = std::to_string(task.microbatch);
    const double size = half ? std::min(font_, 10.5) : font_;
    if (static_cast<double>(number.size()) * kLetter * size > width) {
      out_ << "\n";
    } else {
      text(half ? "half" : "number", x + width / 2, middle + size * 0.36, number);
    }
  }

  void draw_legend(double y) {
    int64_t chunks = 1;
    for (const Timeline& timeline : timelines_) chunks = std::max(chunks, timeline.num_chunks());
    double x = kMargin;
    for (const ActionType type : types_in(timelines_)) {
      for (int64_t chunk = 0; chunk < std::min<int64_t>(chunks, 4); ++chunk) {
        x = swatch(x, y, to_hex(action_color(type, chunk, std::min<int64_t>(chunks, 4))));
      }
      x = legend_text(x, y, action_words(type));
    }
    if (has_overlaps(timelines_)) x = legend_text(x, y, "stacked: both at once");
    x = legend_text(swatch(x, y, ""), y, "idle");
    if (chunks > 1) x = legend_text(x, y, "lighter: a rank's later stages");
    legend_text(x, y, "numbers: microbatches");
  }

  // An empty colour means idle time.
  double swatch(double x, double y, std::string_view color) {
    return svg_swatch(out_, x, y, color.empty() ? "idle swatch" : "swatch", color);
  }
  double legend_text(double x, double y, std::string_view words) {
    return svg_legend_text(out_, x, y, words);
  }

  std::span<const Timeline> timelines_;
  TimeAxis axis_;
  double per_time_ = 0;  // Pixels per unit of time.
  double label_ = 0;     // Width of the label left of a rank.
  double font_ = kLargestFont;
  std::ostringstream out_;
};

}  // namespace

std::string draw_svg(std::span<const Timeline> timelines, std::string_view title,
                     std::string_view subtitle) {
  return Drawing(timelines).draw(title, subtitle);
}

}  // namespace tessera
