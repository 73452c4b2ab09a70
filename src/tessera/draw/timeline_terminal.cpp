#include "tessera/draw/timeline_terminal.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/draw/internal/terminal_parts.h"

namespace tessera {

using namespace draw::detail;

namespace {

constexpr int64_t kMostRanks = 64;
constexpr double kMostBlocksPerCharacter = 4;
constexpr std::string_view kBorder = "▏";

std::string label_of(int64_t rank) {
  return concat("rank ", rank, " ");
}

// Maps times to columns.
class Scale {
 public:
  Scale(std::span<const Timeline> timelines, int64_t width) {
    const TimeAxis axis = common_axis(timelines);
    int64_t most_ranks = 0;
    for (const Timeline& timeline : timelines) most_ranks = std::max(most_ranks, timeline.pp());
    time_.label = static_cast<int64_t>(label_of(most_ranks - 1).size());
    const auto room = static_cast<double>(std::max<int64_t>(1, width - time_.label));
    // Blocks of the same length get the same width if the shortest has at least one character.
    const double whole = axis.end > 0 ? std::floor(room * axis.shortest / axis.end) : 0;
    numbered_ = whole >= 1;
    time_.end = axis.end;
    time_.per_time = whole >= 1 ? whole / axis.shortest : axis.end > 0 ? room / axis.end : 0;
  }

  const TerminalTime& time() const { return time_; }
  /// Whether blocks are wide enough for numbers.
  bool numbered() const { return numbered_; }
  int64_t label() const { return time_.label; }
  double time_per_column() const { return time_.per_time > 0 ? 1 / time_.per_time : 0; }
  int64_t column(double time) const { return time_.column(time); }

 private:
  TerminalTime time_;
  bool numbered_ = false;
};

// The block at the middle of each column; null if the rank is idle there.
std::vector<const TimelineBlock*> columns_of(std::span<const TimelineBlock> blocks,
                                             const Scale& scale, double end) {
  std::vector<const TimelineBlock*> shown(
      static_cast<size_t>(std::max<int64_t>(1, scale.column(end))), nullptr);
  for (const TimelineBlock& block : blocks) {
    const auto first = static_cast<size_t>(scale.column(block.time.start));
    const auto last = static_cast<size_t>(scale.column(block.time.end));
    for (size_t c = first; c < std::min(last, shown.size()); ++c) shown[c] = &block;
  }
  return shown;
}

class Drawing {
 public:
  Drawing(std::span<const Timeline> timelines, const TerminalOptions& options)
      : timelines_(timelines),
        options_(options),
        color_(options.color),
        scale_(timelines, options.width) {}

  std::string draw() {
    for (const Timeline& timeline : timelines_) {
      out_ << heading(timeline, options_);
      for (int64_t rank = 0; rank < timeline.pp(); ++rank) draw_rank(timeline, GroupRank{rank});
      out_ << time_ruler(scale_.time(), options_);
      out_ << "\n";
    }
    draw_legend();
    return std::move(out_).str();
  }

 private:
  void draw_rank(const Timeline& timeline, GroupRank rank) {
    std::string label = label_of(rank.value);
    label.resize(static_cast<size_t>(scale_.label()), ' ');
    out_ << label;
    const auto columns = columns_of(timeline.blocks_of(rank), scale_, timeline.makespan());
    for (auto begin = columns.begin(); begin != columns.end();) {
      const auto end = std::find_if(begin, columns.end(), [&](auto c) { return c != *begin; });
      out_ << run(timeline, *begin, static_cast<size_t>(end - begin));
      begin = end;
    }
    out_ << "\n";
  }

  std::string run(const Timeline& timeline, const TimelineBlock* block, size_t width) const {
    if (block == nullptr) {
      return color_ == ColorMode::kNone ? std::string(width, '.') : dots(width);
    }
    if (color_ == ColorMode::kNone) return plain(timeline, block->action, width);
    return block->action.tasks().size() == 2 ? overlap(timeline, block->action, width)
                                             : task(timeline, block->action.tasks()[0], width);
  }

  std::string dots(size_t width) const {
    std::string text;
    for (size_t i = 0; i < width; ++i) text += "·";
    return faint(text, color_);
  }

  // The longest name that fits, then a line up to the end of the block. Later stages are in lower
  // case.
  std::string plain(const Timeline& timeline, const Action& action, size_t width) const {
    std::vector<std::string> numbered;
    std::vector<std::string> types;
    for (const Task& task : action.tasks()) {
      const std::string type(to_string(task.type));
      types.push_back(timeline.chunk_of(task) > 0 ? to_lower(type) : type);
      numbered.push_back(concat(types.back(), task.microbatch));
    }
    std::vector<std::string> names{join(types, "+"), types[0]};
    if (scale_.numbered()) names.insert(names.begin(), join(numbered, "+"));
    std::string text =
        *std::ranges::find_if(names, [&](const auto& name) { return name.size() <= width; });
    text.resize(width, '-');
    return text;
  }

  // The microbatch centred, if it fits, after a thin line, if there is room.
  std::string task(const Timeline& timeline, const Task& task, size_t width) const {
    const std::string number = scale_.numbered() ? std::to_string(task.microbatch) : "";
    const size_t left = number.size() < width ? (width - number.size() + 1) / 2 : 0;
    std::string text(left, ' ');
    if (number.size() <= width) text += number;
    text.resize(width, ' ');
    const bool border = scale_.numbered() && width > 1 && text.front() == ' ';
    if (border) text.replace(0, 1, kBorder);
    return on_color(text, timeline.color_of(task), color_);
  }

  // Both parts side by side, each with half of the width.
  std::string overlap(const Timeline& timeline, const Action& action, size_t width) const {
    const size_t first = width / 2;
    const std::string left = first > 0 ? task(timeline, action.tasks()[0], first) : "";
    const std::string number = std::to_string(action.tasks()[1].microbatch);
    const size_t second = width - first;
    std::string right = scale_.numbered() && number.size() < second ? concat("+", number) : "+";
    right.resize(second, ' ');
    return left + on_color(right, timeline.color_of(action.tasks()[1]), color_);
  }

  void draw_legend() {
    TerminalLegend legend(options_.width);
    const bool plain = color_ == ColorMode::kNone;
    for (const ActionType type : types_in(timelines_)) {
      legend.add(concat(" ", to_string(type), " "), action_words(type),
                 [&](const std::string& sign) {
                   return on_color(sign, action_color(type, 0, 1), color_);
                 });
    }
    if (has_overlaps(timelines_)) legend.add("+", "forward and backward at once");
    legend.add(plain ? "." : "·", "idle");
    const bool chunks = std::ranges::any_of(
        timelines_, [](const Timeline& timeline) { return timeline.num_chunks() > 1; });
    if (chunks) legend.add(plain ? "lower case:" : "lighter:", "a rank's later stages");
    if (!scale_.numbered()) {
      legend.add("a character:", concat(scale_.time_per_column(), " of time, as in its middle"));
    }
    out_ << legend.text() << "\n";
  }

  std::span<const Timeline> timelines_;
  TerminalOptions options_;
  ColorMode color_;
  Scale scale_;
  std::ostringstream out_;
};

}  // namespace

std::string heading(const Timeline& timeline, const TerminalOptions& options) {
  const std::string shape = concat(": ", timeline.shape_text());
  const std::string result = timeline.result_text();
  const std::string name = visible(timeline.name());
  const size_t width = name.size() + shape.size() + 2 + result.size();
  const bool one_line = width <= static_cast<size_t>(options.width);
  return concat(bold(name, options.color), shape, one_line ? "; " : "\n", result, "\n");
}

std::string draw_terminal(std::span<const Timeline> timelines, const TerminalOptions& options) {
  return Drawing(timelines, options).draw();
}

bool fits_terminal(std::span<const Timeline> timelines, const TerminalOptions& options) {
  return std::ranges::all_of(timelines, [&](const Timeline& timeline) {
    const auto blocks = static_cast<double>(timeline.blocks().size());
    return timeline.pp() <= kMostRanks && blocks <= kMostBlocksPerCharacter *
                                                        static_cast<double>(options.width) *
                                                        static_cast<double>(timeline.pp());
  });
}

}  // namespace tessera
