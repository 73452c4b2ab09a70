#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace tessera::draw::detail {

/// The outside of a picture: its size in pixels and its styles. Those of texts, the background
/// and the title are in all pictures, in light and dark.
struct SvgFrame {
  int64_t width = 0;
  int64_t height = 0;
  std::string style = "";       // CSS rules of the picture, a line each,
  std::string dark_style = "";  // and those that differ for readers of dark pages.
};

/// Begins a picture with its background; end it with kSvgEnd.
void open_svg(std::ostream& out, const SvgFrame& frame);
inline constexpr std::string_view kSvgEnd = "</svg>\n";

/// A text of a class, e.g. "title", on a line of its own.
void svg_text(std::ostream& out, std::string_view style, double x, double y,
              std::string_view content);

/// To hundredths of a pixel.
double rounded(double pixels);

}  // namespace tessera::draw::detail
