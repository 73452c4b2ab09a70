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

struct SvgBox {
  double x = 0, y = 0, width = 0, height = 0;
};
/// A rectangle of a CSS class, with a colour unless `fill` is empty. Leaves the element open, so
/// that a title can follow.
void svg_rect(std::ostream& out, std::string_view style, const SvgBox& box, std::string_view fill);

/// Time to the right: where it begins, and pixels per unit.
struct SvgTime {
  double begin = 0;
  double per_time = 0;

  double x_of(double time) const { return begin + time * per_time; }
};
/// A line with ticks and their times up to `end`, in the classes "line" and "mark".
void svg_ruler(std::ostream& out, const SvgTime& time, double end, double y);

/// A coloured square of a legend, or its text, at (x, y); returns where the next one begins. The
/// text has the class "quiet".
double svg_swatch(std::ostream& out, double x, double y, std::string_view style,
                  std::string_view fill);
double svg_legend_text(std::ostream& out, double x, double y, std::string_view words);

/// Rounds to hundredths of a pixel.
double rounded(double pixels);

}  // namespace tessera::draw::detail
