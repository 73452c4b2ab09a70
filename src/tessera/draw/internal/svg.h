#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace tessera::draw::detail {

/// The frame of a picture: its size in pixels and its styles. All pictures share the styles of
/// texts, background and title, in light and dark.
struct SvgFrame {
  int64_t width = 0;
  int64_t height = 0;
  std::string style = "";       // CSS rules of the picture, one per line.
  std::string dark_style = "";  // CSS rules that differ in dark mode.
};

/// Begins a picture with its background; kSvgEnd ends it.
void open_svg(std::ostream& out, const SvgFrame& frame);
inline constexpr std::string_view kSvgEnd = "</svg>\n";

/// A text of a CSS class, e.g. "title", on a line of its own.
void svg_text(std::ostream& out, std::string_view style, double x, double y,
              std::string_view content);

/// Rounds to hundredths of a pixel.
double rounded(double pixels);

}  // namespace tessera::draw::detail
