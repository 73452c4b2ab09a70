#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A point of a curve.
struct CurvePoint {
  double x = 0;  // E.g. the step.
  double y = 0;  // A non-finite value (e.g. a diverged loss) leaves a gap.
};

/// Values over the steps of a run, e.g. of the training loss.
struct CurveSeries {
  std::string name = {};                // For the legend: "training", "validation".
  std::vector<CurvePoint> points = {};  // Sorted by x.
};

/// A loss over the steps of a run.
struct LossCurve {
  std::string x_name = "step";  // Label of the x axis.
  std::string y_name = "loss";  // Label of the y axis.
  /// The first one is drawn as a line. The others are markers at their points, because a validation
  /// loss is measured only occasionally.
  std::vector<CurveSeries> series = {};
};

/// As wide as the terminal and `height` lines high, including axes and legend; ConfigError below 8
/// lines. If there are more points than dots, a dot is the mean of its points. Readable without
/// colours.
std::string draw_terminal(const LossCurve& curve, const TerminalOptions& options,
                          int64_t height = 16);

/// As a picture that follows the reader's light or dark theme.
std::string draw_svg(const LossCurve& curve, std::string_view title, std::string_view subtitle);

}  // namespace tessera
