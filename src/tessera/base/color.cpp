#include "tessera/base/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tessera/base/text.h"

namespace tessera {
namespace {

// Hue in degrees, the others in 0..1; the standard conversion by offsets of the hue.
Rgb from_hsl(double hue, double saturation, double lightness) {
  const double amplitude = saturation * std::min(lightness, 1 - lightness);
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue / 30, 12);
    const double value = lightness - amplitude * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    return static_cast<int>(std::lround(255 * value));
  };
  return {channel(0), channel(8), channel(4)};
}

// The nearest colour of the 6×6×6 cube that 256-colour terminals have.
int to_256(Rgb color) {
  constexpr std::array<int, 6> kLevels{0, 95, 135, 175, 215, 255};
  const auto level = [&](int value) {
    const auto nearer = [&](int a, int b) { return std::abs(a - value) < std::abs(b - value); };
    return static_cast<int>(std::ranges::min_element(kLevels, nearer) - kLevels.begin());
  };
  return 16 + 36 * level(color.red) + 6 * level(color.green) + level(color.blue);
}

std::string escape(std::string_view code, std::string_view text) {
  return concat("\x1b[", code, "m", text, "\x1b[0m");
}

}  // namespace

Rgb group_color(int64_t index) {
  // Steps by the golden angle never come near an earlier hue soon; lightness separates late
  // repeats.
  constexpr double kGoldenAngle = 137.508;
  constexpr std::array<double, 3> kLightness{0.74, 0.66, 0.84};
  const double hue = std::fmod(240 + static_cast<double>(index) * kGoldenAngle, 360);
  return from_hsl(hue, 0.62, kLightness[static_cast<size_t>(index / 8 % 3)]);
}

std::string to_hex(Rgb color) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", color.red & 0xff, color.green & 0xff,
                color.blue & 0xff);
  return text.data();
}

std::string on_color(std::string_view text, Rgb background, ColorMode mode) {
  switch (mode) {
    case ColorMode::kNone:
      return std::string(text);
    case ColorMode::k256:
      return escape(concat("38;5;16;48;5;", to_256(background)), text);
    case ColorMode::kTrueColor:
      return escape(concat("38;2;20;20;20;48;2;", background.red, ";", background.green, ";",
                           background.blue),
                    text);
  }
  return std::string(text);
}

std::string in_color(std::string_view text, Rgb color, ColorMode mode) {
  switch (mode) {
    case ColorMode::kNone:
      return std::string(text);
    case ColorMode::k256:
      return escape(concat("38;5;", to_256(color)), text);
    case ColorMode::kTrueColor:
      return escape(concat("38;2;", color.red, ";", color.green, ";", color.blue), text);
  }
  return std::string(text);
}

std::string bold(std::string_view text, ColorMode mode) {
  return mode == ColorMode::kNone ? std::string(text) : escape("1", text);
}

std::string faint(std::string_view text, ColorMode mode) {
  return mode == ColorMode::kNone ? std::string(text) : escape("2", text);
}

}  // namespace tessera
