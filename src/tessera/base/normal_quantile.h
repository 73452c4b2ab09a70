#pragma once

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A probability and its complement, so that neither loses digits near 0.
struct Probability {
  double below = 0;  // The probability.
  double above = 1;  // The complement: 1 − below.

  /// Distance from 0.5; negative in the lower half.
  double from_middle() const { return 0.5 * (below - above); }
  /// The smaller one of the two.
  double tail() const { return below < above ? below : above; }
};

/// How two bounds divide the standard normal distribution. The default is without bounds.
struct NormalParts {
  double below = 0;   // The probability below the lower bound.
  double above = 0;   // The probability above the upper bound.
  double within = 1;  // The probability between the bounds.

  /// The probability at the fraction `unit` of the part within the bounds. Exact without bounds.
  Probability at(double unit) const { return {below + unit * within, above + (1 - unit) * within}; }
};

/// The smallest probability, on either side, that normal_quantile supports.
inline constexpr double kSmallestTail = 0x1p-74;

/// The quantile of the standard normal distribution, for probabilities from kSmallestTail on;
/// relative error 1.5·10^-15. Uses only + − × ÷ and sqrt, each rounded separately, so that the
/// result is the same on every machine and for every vector width.
double normal_quantile(const Probability& probability);

/// The standard normal distribution function, as the inverse of normal_quantile; 0 or 1 beyond its
/// range.
Probability normal_cdf(double z);

/// The parts into which bounds divide the standard normal distribution. Bounds may be infinite.
NormalParts normal_parts(double low, double high);

}  // namespace tessera
