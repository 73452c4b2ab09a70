#include "tessera/draw/timeline_terminal.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr int64_t kMostRanks = 64;
constexpr double kMostBlocksPerCharacter = 4;
constexpr int64_t kMarkDistance = 10;  // Characters, at least.
constexpr std::string_view kBorder = "▏";

std::string label_of(int64_t rank) {
  return concat("rank ", rank, " ");
}

// How times become columns.
class Scale {
 public:
  Scale(std::span<const Timeline> timelines, int64_t width) : axis_(common_axis(timelines)) {
    int64_t most_ranks = 0;
    for (const Timeline& timeline : timelines) most_ranks = std::max(most_ranks, timeline.pp());
    label_ = static_cast<int64_t>(label_of(most_ranks - 1).size());
    const auto room = static_cast<double>(std::max<int64_t>(1, width - label_));
    // Blocks of the same length get the same width where the shortest has a character.
    const double whole = axis_.end > 0 ? std::floor(room * axis_.shortest / axis_.end) : 0;
    per_time_ = whole >= 1 ? whole / axis_.shortest : axis_.end > 0 ? room / axis_.end : 0;
  }

  const TimeAxis& axis() const { return axis_; }
  int64_t label() const { return label_; }
  double at(double time) const { return time * per_time_; }
  int64_t column(double time) const { return std::llround(at(time)); }

 private:
  TimeAxis axis_;
  int64_t label_ = 0;
  double per_time_ = 0;
};

// The block that fills most of each column; null where most of it is idle.
std::vector<const TimelineBlock*> columns_of(std::span<const TimelineBlock> blocks,
                                             const Scale& scale, double end) {
  const auto count = static_cast<size_t>(std::max<int64_t>(1, scale.column(end)));
  std::vector<const TimelineBlock*> shown(count, nullptr);
  std::vector<double> most(count, 0);
  std::vector<double> busy(count, 0);
  for (const TimelineBlock& block : blocks) {
    const double from = scale.at(block.time.start);
    const double to = scale.at(block.time.end);
    for (auto c = static_cast<size_t>(from); c < count && static_cast<double>(c) < to; ++c) {
      const double share =
          std::min(to, static_cast<double>(c + 1)) - std::max(from, static_cast<double>(c));
      busy[c] += share;
      if (share > most[c]) shown[c] = &block;
      most[c] = std::max(most[c], share);
    }
  }
  for (size_t c = 0; c < count; ++c) {
    if (busy[c] < 0.5) shown[c] = nullptr;
  }
  return shown;
}

class Drawing {
 public:
  Drawing(std::span<const Timeline> timelines, const TerminalOptions& options)
      : timelines_(timelines), color_(options.color), scale_(timelines, options.width) {}

  std::string draw() {
    for (const Timeline& timeline : timelines_) {
      out_ << bold(timeline.name(), color_) << ": " << timeline.shape_text() << "; "
           << timeline.result_text() << "\n";
      for (int64_t rank = 0; rank < timeline.pp(); ++rank) draw_rank(timeline, {rank});
      draw_ruler();
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

  // The longest of the names that fits, then a line to the block's end. Later stages are in lower
  // case.
  static std::string plain(const Timeline& timeline, const Action& action, size_t width) {
    std::vector<std::string> numbered;
    std::vector<std::string> types;
    for (const Task& task : action.tasks()) {
      const std::string type(to_string(task.type));
      types.push_back(timeline.chunk_of(task) > 0 ? to_lower(type) : type);
      numbered.push_back(concat(types.back(), task.microbatch));
    }
    const std::vector<std::string> names{join(numbered, "+"), join(types, "+"), types[0]};
    std::string text =
        *std::ranges::find_if(names, [&](const auto& name) { return name.size() <= width; });
    text.resize(width, '-');
    return text;
  }

  // The microbatch in the middle where it fits, after a thin line where there is room for one.
  std::string task(const Timeline& timeline, const Task& task, size_t width) const {
    const std::string number = std::to_string(task.microbatch);
    return on_color(framed(number, width), timeline.color_of(task), color_);
  }

  static std::string framed(const std::string& number, size_t width) {
    if (number.size() == width) return number;
    if (width == 1) return " ";
    const std::string shown = number.size() < width ? number : "";
    const size_t left = (width - shown.size()) / 2;  // At least 1, for the border.
    return concat(kBorder, std::string(left - (left > 0), ' '), shown,
                  std::string(width - shown.size() - std::max<size_t>(left, 1), ' '));
  }

  // Both parts side by side, each with half of the width.
  std::string overlap(const Timeline& timeline, const Action& action, size_t width) const {
    const size_t first = width / 2;
    const std::string left = first > 0 ? task(timeline, action.tasks()[0], first) : "";
    const std::string number = std::to_string(action.tasks()[1].microbatch);
    const size_t second = width - first;
    std::string right = number.size() < second ? concat("+", number) : std::string(1, '+');
    right.resize(second, ' ');
    return left + on_color(right, timeline.color_of(action.tasks()[1]), color_);
  }

  void draw_ruler() {
    if (scale_.axis().end <= 0) return;
    const int64_t columns = scale_.column(scale_.axis().end);
    const double step = scale_.axis().step(std::max<int64_t>(1, columns / kMarkDistance));
    std::string line(static_cast<size_t>(scale_.label()), ' ');
    for (int64_t mark = 0; static_cast<double>(mark) * step <= scale_.axis().end * 1.000001;
         ++mark) {
      const double time = static_cast<double>(mark) * step;
      const auto at = static_cast<size_t>(scale_.label() + scale_.column(time));
      line.resize(std::max(line.size(), at), ' ');
      line += concat("|", time);
    }
    out_ << faint(line, color_) << "\n";
  }

  void draw_legend() {
    std::vector<std::string> parts;
    for (const ActionType type : types_in(timelines_)) {
      const std::string letter = concat(" ", to_string(type), " ");
      parts.push_back(
          concat(on_color(letter, action_color(type, 0, 1), color_), " ", action_words(type)));
    }
    if (has_overlaps(timelines_)) parts.emplace_back("+ forward and backward at once");
    parts.push_back(color_ == ColorMode::kNone ? ". idle" : concat(dots(1), " idle"));
    const bool chunks = std::ranges::any_of(
        timelines_, [](const Timeline& timeline) { return timeline.num_chunks() > 1; });
    if (chunks) {
      parts.emplace_back(color_ == ColorMode::kNone ? "lower case: a rank's later stages"
                                                    : "lighter: a rank's later stages");
    }
    out_ << join(parts, "   ") << "\n";
  }

  std::span<const Timeline> timelines_;
  ColorMode color_;
  Scale scale_;
  std::ostringstream out_;
};

}  // namespace

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
