#pragma once

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A probability with its complement, so that neither loses digits near 0.
struct Probability {
  double below = 0;
  double above = 1;

  double from_middle() const { return 0.5 * (below - above); }
  double tail() const { return below < above ? below : above; }
};

/// How much of the standard normal distribution lies below, above and within two bounds.
struct NormalParts {
  double below = 0;
  double above = 0;
  double within = 1;

  /// Where the share `unit` of the part within the bounds ends. Exact without bounds.
  Probability at(double unit) const { return {below + unit * within, above + (1 - unit) * within}; }
};

/// The smallest probability, on either side, that normal_quantile is made for.
inline constexpr double kSmallestTail = 0x1p-74;

/// Where the standard normal distribution has this much below it, for probabilities from
/// kSmallestTail on: right to 1.5·10^-15 of the value. By + − × ÷ and sqrt alone, each rounded by
/// itself, so that the result is the same on every machine and in vectors of any width.
double normal_quantile(const Probability& probability);

/// How much of the standard normal distribution lies below z, by the inverse of normal_quantile; 0
/// or 1 where normal_quantile does not reach.
Probability normal_cdf(double z);

/// The parts that bounds cut the standard normal distribution into. Bounds may be infinite.
NormalParts normal_parts(double low, double high);

}  // namespace tessera
