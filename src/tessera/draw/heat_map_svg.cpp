#include <algorithm>
#include <cmath>
#include <sstream>

#include "tessera/base/text.h"
#include "tessera/draw/heat_map.h"
#include "tessera/draw/internal/axis.h"
#include "tessera/draw/internal/svg.h"

namespace tessera {

using namespace draw::detail;

namespace {

// In pixels.
constexpr double kLeft = 90;
constexpr double kTop = 70;
constexpr double kWidth = 720;  // Of all cells.
constexpr double kRowHeight = 16;
constexpr size_t kMostColumns = 120;

constexpr const char* kStyle = R"(.subtitle { font-size: 13px; fill: #5a6072; }
.name { font-size: 12px; fill: #5a6072; }
.cell { stroke: none; }
)";
constexpr const char* kDarkStyle = R"(.subtitle, .name { fill: #a3aabc; }
)";

/// Neighbouring steps.
struct Column {
  size_t begin, end;
};

std::vector<Column> columns_of(size_t steps) {
  const size_t count = std::min(steps, kMostColumns);
  std::vector<Column> columns;
  for (size_t i = 0; i < count; ++i) {
    columns.push_back({i * steps / count, (i + 1) * steps / count});
  }
  return columns;
}

double mean_of(const HeatMap& map, const Column& column, size_t row) {
  double sum = 0;
  for (size_t i = column.begin; i < column.end; ++i) sum += map.columns[i].at(row);
  return sum / static_cast<double>(column.end - column.begin);
}

// From white at 0 over blue at 1 to dark violet at 3 and above.
std::string colour_of(double value) {
  const double share = std::clamp(value, 0.0, 3.0);
  const auto mix = [&](double low, double middle, double high) {
    const double mixed =
        share <= 1 ? low + (middle - low) * share : middle + (high - middle) * (share - 1) / 2;
    return std::to_string(std::lround(mixed));
  };
  return concat("rgb(", mix(255, 120, 60), ",", mix(255, 160, 0), ",", mix(255, 235, 90), ")");
}

}  // namespace

std::string draw_svg(const HeatMap& map, std::string_view title, std::string_view subtitle) {
  const size_t rows = map.columns.empty() ? 0 : map.columns.front().size();
  const std::vector<Column> columns = columns_of(map.columns.size());
  const double width = kWidth / std::max<double>(1, static_cast<double>(columns.size()));
  std::ostringstream out;
  open_svg(out, {.width = static_cast<int64_t>(kLeft + kWidth) + 30,
                 .height = static_cast<int64_t>(kTop + static_cast<double>(rows) * kRowHeight) + 40,
                 .style = kStyle,
                 .dark_style = kDarkStyle});
  svg_text(out, "title", 24, 32, title);
  svg_text(out, "subtitle", 24, 54, subtitle);
  for (size_t row = 0; row < rows; ++row) {
    const double y = kTop + static_cast<double>(row) * kRowHeight;
    svg_text(out, "name", 24, y + kRowHeight - 4, concat(map.row_name, " ", row));
    for (size_t i = 0; i < columns.size(); ++i) {
      const double value = mean_of(map, columns[i], row);
      svg_rect(out, "cell",
               {.x = rounded(kLeft + static_cast<double>(i) * width),
                .y = y,
                .width = rounded(width),
                .height = kRowHeight},
               colour_of(value));
      out << "><title>" << map.row_name << " " << row << ", step "
          << short_number(map.steps[columns[i].begin]) << ": " << short_number(value)
          << "</title></rect>\n";
    }
  }
  const double below = kTop + static_cast<double>(rows) * kRowHeight + 20;
  if (!columns.empty()) {
    svg_text(out, "name", kLeft, below, concat("step ", short_number(map.steps.front())));
    svg_text(out, "name", kLeft + kWidth - 60, below,
             concat("step ", short_number(map.steps.back())));
  }
  out << kSvgEnd;
  return out.str();
}

}  // namespace tessera
