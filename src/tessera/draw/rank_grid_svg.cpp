#include <algorithm>
#include <sstream>

#include "tessera/base/text.h"
#include "tessera/draw/internal/markup.h"
#include "tessera/draw/internal/svg.h"
#include "tessera/draw/rank_grid.h"

namespace tessera {

using namespace draw::detail;

namespace {

// In pixels.
constexpr int64_t kMargin = 24;
constexpr int64_t kHeader = 90;   // Title, subtitle and reading instructions.
constexpr int64_t kCaption = 30;  // Above a panel's first node.
constexpr int64_t kCellWidth = 40;
constexpr int64_t kCellHeight = 28;
constexpr int64_t kNodePadding = 4;  // Between a node's frame and its cells.
constexpr int64_t kNodeGap = 6;
constexpr int64_t kPanelGap = 36;
constexpr int64_t kWidestPicture = 1400;
constexpr int64_t kCharacter = 8;  // Width of a letter at 13 pixels, rounded up generously.

constexpr const char* kStyle = R"(.subtitle { font-size: 13px; fill: #5a6072; }
.label { font-size: 15px; font-weight: bold; }
.caption { font-size: 13px; font-weight: normal; fill: #5a6072; }
.node { font-size: 12px; fill: #5a6072; }
.rank { font-size: 13px; text-anchor: middle; }
.frame { fill: #f4f5f8; stroke: #9aa1b2; stroke-width: 1.5; }
.cell { stroke: #ffffff; stroke-width: 1.5; }
.quiet { opacity: 0.18; }
.focus { stroke: #1f2430; stroke-width: 2.5; }
)";
constexpr const char* kDarkStyle = R"(.subtitle, .caption, .node { fill: #a3aabc; }
.rank { fill: #1f2430; }
.frame { fill: #1c2029; stroke: #626b80; }
.cell { stroke: #14171e; }
.quiet .rank { fill: #e8eaf0; }
.focus { stroke: #e8eaf0; }
)";

class Drawing {
 public:
  explicit Drawing(const RankGrid& grid)
      : grid_(grid),
        rows_per_node_((std::min(grid.ranks_per_node, grid.world) + grid.columns() - 1) /
                       grid.columns()),
        node_height_(rows_per_node_ * kCellHeight + 2 * kNodePadding),
        node_label_(width_of(concat("node ", grid.num_nodes() - 1)) + kCharacter),
        panel_width_(node_label_ + grid.columns() * kCellWidth + 2 * kNodePadding),
        panel_height_(kCaption + grid.num_nodes() * (node_height_ + kNodeGap)) {
    for (const RankPanel& panel : grid.panels) {
      panel_width_ = std::max(panel_width_, width_of(concat(panel.label, "   ", panel.caption)));
    }
  }

  std::string draw(std::string_view title, std::string_view subtitle) {
    const auto count = static_cast<int64_t>(grid_.panels.size());
    const int64_t in_a_row =
        std::clamp<int64_t>(kWidestPicture / (panel_width_ + kPanelGap), 1, count);
    const int64_t rows = (count + in_a_row - 1) / in_a_row;
    const int64_t width = 2 * kMargin + in_a_row * (panel_width_ + kPanelGap) - kPanelGap;
    const int64_t height = kMargin + kHeader + rows * (panel_height_ + kPanelGap);
    open_svg(out_, {.width = std::max<int64_t>(width, 720),
                    .height = height,
                    .style = kStyle,
                    .dark_style = kDarkStyle});
    svg_text(out_, "title", kMargin, 42, title);
    svg_text(out_, "subtitle", kMargin, 66, subtitle);
    svg_text(out_, "subtitle", kMargin, 88,
             "A cell is a rank, a frame is a node; ranks of one colour form a group.");
    for (int64_t i = 0; i < count; ++i) {
      draw_panel(grid_.panels[static_cast<size_t>(i)],
                 kMargin + i % in_a_row * (panel_width_ + kPanelGap),
                 kMargin + kHeader + i / in_a_row * (panel_height_ + kPanelGap));
    }
    out_ << kSvgEnd;
    return std::move(out_).str();
  }

 private:
  static int64_t width_of(std::string_view text) {
    return static_cast<int64_t>(text.size()) * kCharacter;
  }

  void draw_panel(const RankPanel& panel, int64_t x, int64_t y) {
    out_ << "<g transform=\"translate(" << x << " " << y << ")\">"
         << R"(<text class="label" x="0" y="16">)" << escape_xml(panel.label)
         << R"( <tspan class="caption" dx="6">)" << escape_xml(panel.caption)
         << "</tspan></text>\n";
    for (int64_t node = 0; node < grid_.num_nodes(); ++node) {
      draw_node(panel, node, kCaption + node * (node_height_ + kNodeGap));
    }
    out_ << "</g>\n";
  }

  void draw_node(const RankPanel& panel, int64_t node, int64_t y) {
    out_ << R"(<text class="node" x="0" y=")" << y + node_height_ / 2 + 4 << "\">node " << node
         << R"(</text><rect class="frame" rx="6" x=")" << node_label_ << R"(" y=")" << y
         << R"(" width=")" << grid_.columns() * kCellWidth + 2 * kNodePadding << R"(" height=")"
         << node_height_ << "\"/>\n";
    const int64_t first = node * grid_.ranks_per_node;
    const int64_t end = std::min(first + grid_.ranks_per_node, grid_.world);
    for (int64_t rank = first; rank < end; ++rank) {
      const int64_t at = rank - first;
      draw_cell(panel, rank, node_label_ + kNodePadding + at % grid_.columns() * kCellWidth,
                y + kNodePadding + at / grid_.columns() * kCellHeight);
    }
  }

  void draw_cell(const RankPanel& panel, int64_t rank, int64_t x, int64_t y) {
    const int64_t group = panel.group_of[static_cast<size_t>(rank)];
    const bool is_focus = grid_.focus == GlobalRank{rank};
    const int64_t inset = is_focus ? 2 : 0;  // Keeps neighbours from covering the thick outline.
    out_ << (grid_.stands_out(panel, rank) ? "<g>" : R"(<g class="quiet">)") << "<title>rank "
         << rank << ", " << escape_xml(panel.label) << " group " << group
         << R"(</title><rect class="cell)" << (is_focus ? " focus" : "") << R"(" rx="4" x=")"
         << x + inset << R"(" y=")" << y + inset << R"(" width=")" << kCellWidth - 2 * inset
         << R"(" height=")" << kCellHeight - 2 * inset << R"(" fill=")"
         << to_hex(group_color(group)) << R"("/><text class="rank" x=")" << x + kCellWidth / 2
         << R"(" y=")" << y + kCellHeight / 2 + 5 << "\">" << rank << "</text></g>\n";
  }

  const RankGrid& grid_;
  int64_t rows_per_node_;
  int64_t node_height_;
  int64_t node_label_;  // Width of the label left of a node.
  int64_t panel_width_;
  int64_t panel_height_;
  std::ostringstream out_;
};

}  // namespace

std::string draw_svg(const RankGrid& grid, std::string_view title, std::string_view subtitle) {
  return Drawing(grid).draw(title, subtitle);
}

}  // namespace tessera
