#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A colour by its parts.
struct Rgb {
  int red = 0;    // From 0 to 255.
  int green = 0;  // From 0 to 255.
  int blue = 0;   // From 0 to 255.

  friend bool operator==(const Rgb&, const Rgb&) = default;
};

/// A light colour for group `index`; neighbours differ clearly, dark text stays readable on all.
Rgb group_color(int64_t index);

/// "#a1b2c3".
std::string to_hex(Rgb color);

/// What a terminal can show.
enum class ColorMode { kNone, k256, kTrueColor };

/// How text is laid out and coloured for a terminal.
struct TerminalOptions {
  int64_t width = 100;                 // In characters.
  ColorMode color = ColorMode::kNone;  // kNone: no escape sequences.
};

/// `text` in dark letters on `background`.
std::string on_color(std::string_view text, Rgb background, ColorMode mode);
/// `text` in this colour, on whatever the terminal's background is.
std::string in_color(std::string_view text, Rgb color, ColorMode mode);
/// `text` bold, or faint: emphasis without a colour.
std::string bold(std::string_view text, ColorMode mode);
/// `text` in faint letters, if the mode has colours.
std::string faint(std::string_view text, ColorMode mode);

}  // namespace tessera
