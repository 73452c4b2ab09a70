#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "tessera/base/text.h"
#include "tessera/draw/internal/axis.h"
#include "tessera/draw/internal/markup.h"
#include "tessera/draw/internal/svg.h"
#include "tessera/draw/loss_curve.h"

namespace tessera {

using namespace draw::detail;

namespace {

// In pixels.
constexpr int64_t kWidth = 860;
constexpr int64_t kHeight = 420;
constexpr double kLeft = 70;
constexpr double kRight = 836;
constexpr double kTop = 96;
constexpr double kBottom = 372;
constexpr size_t kMostPoints = 1500;

constexpr const char* kStyle = R"(.quiet { font-size: 13px; fill: #5a6072; }
.mark { font-size: 12px; fill: #5a6072; text-anchor: middle; }
.level { font-size: 12px; fill: #5a6072; text-anchor: end; }
.grid { stroke: #dfe3ec; }
.series0 { stroke: #0b5cad; fill: #0b5cad; }
.series1 { stroke: #c2510a; fill: #c2510a; }
.series2 { stroke: #007a59; fill: #007a59; }
.series3 { stroke: #9b4d86; fill: #9b4d86; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
)";
constexpr const char* kDarkStyle = R"(.quiet, .mark, .level { fill: #a3aabc; }
.grid { stroke: #363d4d; }
.series0 { stroke: #7db8f5; fill: #7db8f5; }
.series1 { stroke: #ffa257; fill: #ffa257; }
.series2 { stroke: #4fd1a5; fill: #4fd1a5; }
.series3 { stroke: #e3a4d2; fill: #e3a4d2; }
.line { fill: none; }
)";

class Drawing {
 public:
  explicit Drawing(const LossCurve& curve) : curve_(curve) {
    const CurveExtent extent = extent_of(curve.series);
    x_ = step_axis(extent.x_least, extent.x_greatest, 8);
    y_ = round_axis(extent.y_least, extent.y_greatest, 6);
  }

  std::string draw(std::string_view title, std::string_view subtitle) {
    open_svg(out_, {.width = kWidth, .height = kHeight, .style = kStyle, .dark_style = kDarkStyle});
    text("title", 24, 40, title);
    text("quiet", 24, 62, subtitle);
    draw_legend();
    draw_axes();
    for (size_t i = 0; i < curve_.series.size(); ++i) {
      if (i == 0)
        draw_line(curve_.series[i]);
      else
        draw_marks(curve_.series[i], i);
    }
    out_ << kSvgEnd;
    return std::move(out_).str();
  }

 private:
  double x_of(double x) const { return rounded(kLeft + x_.share(x) * (kRight - kLeft)); }
  double y_of(double y) const { return rounded(kBottom - y_.share(y) * (kBottom - kTop)); }
  static std::string style_of(size_t series) { return concat("series", series % 4); }

  void text(std::string_view style, double x, double y, std::string_view content) {
    svg_text(out_, style, x, y, content);
  }

  void draw_legend() {
    double x = kLeft;
    for (size_t i = 0; i < curve_.series.size(); ++i) {
      const CurveSeries& series = curve_.series[i];
      if (i == 0) {
        out_ << R"(<path class="line )" << style_of(i) << R"(" d="M)" << x << " " << kTop - 16
             << "h20\"/>";
      } else {
        circle(i, x + 10, kTop - 16);
        out_ << "/>\n";
      }
      const std::string words =
          series.points.empty() ? series.name
                                : concat(series.name, " ", short_number(series.points.back().y));
      text("quiet", x + 26, kTop - 12, words);
      x += 26 + static_cast<double>(words.size()) * 8 + 24;
    }
  }

  void draw_axes() {
    for (const double mark : y_.marks()) {
      out_ << R"(<path class="grid" d="M)" << kLeft << " " << y_of(mark) << "H" << kRight << "\"/>";
      text("level", kLeft - 8, y_of(mark) + 4, concat(mark));
    }
    for (const double mark : x_.marks()) text("mark", x_of(mark), kBottom + 20, concat(mark));
    text("mark", (kLeft + kRight) / 2, kBottom + 40, curve_.x_name);
    text("quiet", 24, kTop - 12, curve_.y_name);
  }

  // A non-finite value interrupts the line.
  void draw_line(const CurveSeries& series) {
    out_ << R"(<path class="line series0" d=")";
    bool drawing = false;
    for (const CurvePoint& point : thinned(series.points, kMostPoints)) {
      const bool shown = std::isfinite(point.x) && std::isfinite(point.y);
      if (shown) out_ << (drawing ? "L" : "M") << x_of(point.x) << " " << y_of(point.y);
      drawing = shown;
    }
    out_ << "\"/>\n";
  }

  // Leaves the element open, so that a title can follow.
  void circle(size_t series, double x, double y) {
    out_ << "<circle class=\"" << style_of(series) << R"(" r="4" cx=")" << x << R"(" cy=")" << y
         << "\"";
  }

  void draw_marks(const CurveSeries& series, size_t number) {
    for (const CurvePoint& point : thinned(series.points, kMostPoints)) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      circle(number, x_of(point.x), y_of(point.y));
      out_ << "><title>"
           << escape_xml(concat(series.name, " ", short_number(point.y), ", ", curve_.x_name, " ",
                                point.x))
           << "</title></circle>\n";
    }
  }

  const LossCurve& curve_;
  ValueAxis x_;
  ValueAxis y_;
  std::ostringstream out_;
};

}  // namespace

std::string draw_svg(const LossCurve& curve, std::string_view title, std::string_view subtitle) {
  return Drawing(curve).draw(title, subtitle);
}

}  // namespace tessera
