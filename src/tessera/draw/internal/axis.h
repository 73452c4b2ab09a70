#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/draw/loss_curve.h"

namespace tessera::draw::detail {

/// A distance of marks, 1, 2 or 5 times a power of ten, so that at most `most` fit into `length`.
double round_step(double length, int64_t most);

/// A part of the line of numbers, and the round numbers in it.
struct ValueAxis {
  double low = 0;
  double high = 1;
  double step = 1;

  /// Where a value lies between low (0) and high (1).
  double share(double value) const { return (value - low) / (high - low); }
  std::vector<double> marks() const;
};

/// Holds all values and begins and ends with a mark, of which there are about `most`; an axis of
/// values that are equal has some room around them.
ValueAxis round_axis(double least, double greatest, int64_t most);

/// From the first value to the last.
ValueAxis exact_axis(double least, double greatest, int64_t most);

/// The extremes of a curve's points; 0 to 1 where it has none.
struct CurveExtent {
  double x_least = 0, x_greatest = 1;
  double y_least = 0, y_greatest = 1;
};
CurveExtent extent_of(std::span<const CurveSeries> series);

/// At most `most` points, each the mean of neighbours.
std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, size_t most);

/// Four digits: "2.134", "0.0003", "81.3".
std::string short_number(double value);

}  // namespace tessera::draw::detail
