#include "tessera/draw/internal/svg.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/text.h"
#include "tessera/draw/internal/axis.h"
#include "tessera/draw/internal/markup.h"

namespace tessera::draw::detail {

void open_svg(std::ostream& out, const SvgFrame& frame) {
  out << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << frame.width << R"(" height=")"
      << frame.height << R"(" viewBox="0 0 )" << frame.width << " " << frame.height << "\">\n"
      << "<style>\n"
      << "text { font-family: 'DejaVu Sans', Verdana, sans-serif; fill: #1f2430; }\n"
      << ".paper { fill: #ffffff; }\n"
      << ".title { font-size: 20px; font-weight: bold; }\n"
      << frame.style << "@media screen and (prefers-color-scheme: dark) {\n"
      << "text { fill: #e8eaf0; }\n"
      << ".paper { fill: #14171e; }\n"
      << frame.dark_style << "}\n</style>\n"
      << R"(<rect class="paper" width="100%" height="100%"/>)" << "\n";
}

void svg_text(std::ostream& out, std::string_view style, double x, double y,
              std::string_view content) {
  out << "<text class=\"" << style << R"(" x=")" << rounded(x) << R"(" y=")" << rounded(y) << "\">"
      << escape_xml(content) << "</text>\n";
}

void svg_rect(std::ostream& out, std::string_view style, const SvgBox& box, std::string_view fill) {
  out << "<rect class=\"" << style << R"(" x=")" << rounded(box.x) << R"(" y=")" << rounded(box.y)
      << R"(" width=")" << rounded(box.width) << R"(" height=")" << rounded(box.height) << "\"";
  if (!fill.empty()) out << " fill=\"" << fill << "\"";
}

void svg_ruler(std::ostream& out, const SvgTime& time, double end, double y) {
  if (end <= 0) return;
  const double step = round_step(end, std::max<int64_t>(1, std::llround(end * time.per_time / 60)));
  out << R"(<path class="line" fill="none" d="M)" << rounded(time.x_of(0)) << " " << y + 2 << "H"
      << rounded(time.x_of(end));
  const auto marks = static_cast<int64_t>(end / step * 1.000001);
  for (int64_t i = 0; i <= marks; ++i) {
    out << "M" << rounded(time.x_of(static_cast<double>(i) * step)) << " " << y + 2 << "v5";
  }
  out << "\"/>\n";
  for (int64_t i = 0; i <= marks; ++i) {
    const double at = static_cast<double>(i) * step;
    svg_text(out, "mark", time.x_of(at), y + 20, concat(at));
  }
}

double svg_swatch(std::ostream& out, double x, double y, std::string_view style,
                  std::string_view fill) {
  svg_rect(out, style, {x, y, 18, 16}, fill);
  out << "/>\n";
  return x + 20;
}

double svg_legend_text(std::ostream& out, double x, double y, std::string_view words) {
  svg_text(out, "quiet", x + 4, y + 13, words);
  return x + 4 + static_cast<double>(words.size()) * 7 + 20;
}

double rounded(double pixels) {
  return std::round(pixels * 100) / 100;
}

}  // namespace tessera::draw::detail
