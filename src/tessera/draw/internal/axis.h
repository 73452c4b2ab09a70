#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/draw/loss_curve.h"

namespace tessera::draw::detail {

/// The tick spacing, 1, 2 or 5 times a power of ten, so that at most `most` ticks fit into
/// `length`.
double round_step(double length, int64_t most);

/// A range of values and its ticks at round numbers.
struct ValueAxis {
  double low = 0;
  double high = 1;
  double step = 1;

  /// The position of a value between low (0) and high (1).
  double share(double value) const { return (value - low) / (high - low); }
  std::vector<double> marks() const;
};

/// Covers all values and begins and ends at a tick; has about `most` ticks. If all values are
/// equal, the axis extends a little to both sides.
ValueAxis round_axis(double least, double greatest, int64_t most);

/// From the first step to the last, not rounded; ticks are whole steps.
ValueAxis step_axis(double least, double greatest, int64_t most);

/// The extremes of a curve's points; 0 to 1 if it has none.
struct CurveExtent {
  double x_least = 0, x_greatest = 1;
  double y_least = 0, y_greatest = 1;
};
CurveExtent extent_of(std::span<const CurveSeries> series);

/// At most `most` points, each the mean of neighbouring points.
std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, size_t most);

/// With four significant digits: "2.134", "0.0003", "81.3".
std::string short_number(double value);

}  // namespace tessera::draw::detail
