#include "tessera/draw/internal/svg.h"

#include <cmath>

#include "tessera/draw/internal/markup.h"

namespace tessera::draw::detail {

void open_svg(std::ostream& out, const SvgFrame& frame) {
  out << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << frame.width << R"(" height=")"
      << frame.height << R"(" viewBox="0 0 )" << frame.width << " " << frame.height << "\">\n"
      << "<style>\n"
      << "text { font-family: 'DejaVu Sans', Verdana, sans-serif; fill: #1f2430; }\n"
      << ".paper { fill: #ffffff; }\n"
      << ".title { font-size: 20px; font-weight: bold; }\n"
      << frame.style << "@media (prefers-color-scheme: dark) {\n"
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

double rounded(double pixels) {
  return std::round(pixels * 100) / 100;
}

}  // namespace tessera::draw::detail
