#include <algorithm>
#include <sstream>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/draw/rank_grid.h"

namespace tessera {
namespace {

constexpr int64_t kGap = 2;  // Between panels.

std::string pad_right(std::string text, int64_t width) {
  text.resize(std::max(text.size(), static_cast<size_t>(width)), ' ');
  return text;
}

std::string pad_left(const std::string& text, int64_t width) {
  const auto size = static_cast<int64_t>(text.size());
  return std::string(static_cast<size_t>(std::max<int64_t>(0, width - size)), ' ') + text;
}

class Drawing {
 public:
  Drawing(const RankGrid& grid, const TerminalOptions& options) : grid_(grid), options_(options) {
    int64_t largest = 0;
    for (const RankPanel& panel : grid.panels) {
      largest = std::max(largest, *std::ranges::max_element(panel.group_of));
      caption_width_ = std::max(caption_width_, static_cast<int64_t>(heading(panel).size()));
    }
    cell_width_ = static_cast<int64_t>(std::to_string(largest).size()) + 2;
    label_width_ = static_cast<int64_t>(concat("node ", grid.num_nodes() - 1, "  ").size());
    panel_width_ = std::max(grid.columns() * cell_width_, caption_width_);
  }

  std::string draw() {
    const int64_t per_band =
        std::max<int64_t>(1, (options_.width - label_width_ + kGap) / (panel_width_ + kGap));
    const auto count = static_cast<int64_t>(grid_.panels.size());
    for (int64_t begin = 0; begin < count; begin += per_band) {
      draw_band(std::span(grid_.panels)
                    .subspan(static_cast<size_t>(begin),
                             static_cast<size_t>(std::min(per_band, count - begin))));
    }
    return std::move(out_).str();
  }

 private:
  static std::string heading(const RankPanel& panel) {
    return concat(visible(panel.label), ": ", panel.caption);
  }

  void draw_band(std::span<const RankPanel> panels) {
    out_ << pad_right("", label_width_);
    for (const RankPanel& panel : panels) {
      out_ << bold(heading(panel), options_.color);
      fill_panel(panel, panels, static_cast<int64_t>(heading(panel).size()));
    }
    for (int64_t node = 0; node < grid_.num_nodes(); ++node) {
      const int64_t begin = node * grid_.ranks_per_node;
      const int64_t end = begin + std::min(grid_.ranks_per_node, grid_.world - begin);
      for (int64_t row = begin; row < end; row += grid_.columns()) {
        out_ << pad_right(row == begin ? concat("node ", node) : "", label_width_);
        draw_row(panels, row, std::min(row + grid_.columns(), end));
      }
    }
    out_ << "\n";
  }

  void draw_row(std::span<const RankPanel> panels, int64_t begin, int64_t end) {
    for (const RankPanel& panel : panels) {
      for (int64_t rank = begin; rank < end; ++rank) out_ << cell(panel, rank);
      fill_panel(panel, panels, (end - begin) * cell_width_);
    }
  }

  // Pads up to the next panel, or ends the line after the last panel.
  void fill_panel(const RankPanel& panel, std::span<const RankPanel> panels, int64_t used) {
    out_ << (&panel == &panels.back() ? "\n" : pad_right("", panel_width_ - used + kGap));
  }

  // The index of the group. The focus is in brackets. Ranks outside its group are faint, or dots if
  // there are no colours.
  std::string cell(const RankPanel& panel, int64_t rank) const {
    const int64_t group = panel.group_of[static_cast<size_t>(rank)];
    if (grid_.focus == GlobalRank{rank}) {
      return on_color(pad_left(concat("[", group, "]"), cell_width_), group_color(group),
                      options_.color);
    }
    const bool stands_out = grid_.stands_out(panel, rank);
    const bool dot = !stands_out && options_.color == ColorMode::kNone;
    const std::string text = pad_left(dot ? ". " : concat(group, " "), cell_width_);
    return stands_out ? on_color(text, group_color(group), options_.color)
                      : faint(text, options_.color);
  }

  const RankGrid& grid_;
  TerminalOptions options_;
  int64_t cell_width_ = 0;
  int64_t label_width_ = 0;
  int64_t caption_width_ = 0;
  int64_t panel_width_ = 0;
  std::ostringstream out_;
};

}  // namespace

std::string draw_terminal(const RankGrid& grid, const TerminalOptions& options) {
  return Drawing(grid, options).draw();
}

}  // namespace tessera
