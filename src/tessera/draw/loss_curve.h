#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

struct CurvePoint {
  double x = 0;
  double y = 0;  // A value that is no number (a loss that ran away) leaves a gap.
};

/// Values of one name, in the order of their x: "training", "validation".
struct CurveSeries {
  std::string name = {};
  std::vector<CurvePoint> points = {};
};

/// How a loss went down, as it is drawn. The first series is a line, the others are marks at their
/// points: a validation loss is measured now and then.
struct LossCurve {
  std::string x_name = "step";
  std::string y_name = "loss";
  std::vector<CurveSeries> series = {};
};

/// As wide as the terminal, `height` lines high, axes and legend among them; ConfigError below 8
/// lines. Where there are more points than dots, a dot is the mean of its points. Without colours
/// nothing is lost.
std::string draw_terminal(const LossCurve& curve, const TerminalOptions& options,
                          int64_t height = 16);

/// As a picture that follows the reader's theme, light or dark.
std::string draw_svg(const LossCurve& curve, std::string_view title, std::string_view subtitle);

}  // namespace tessera
