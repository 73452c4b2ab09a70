#include "tessera/base/normal_quantile.h"

#include <cmath>

#include "tessera/base/internal/normal_pieces.h"

namespace tessera {

using namespace base::detail;

namespace {

/// The probability below -z, for z from 0 on, by bisection down to neighbouring numbers.
double tail_below(double z) {
  if (z >= tail_quantile(kSmallestTail)) return 0;
  double low = kSmallestTail;
  double high = 0.5;
  for (double middle = 0.5 * (low + high); low < middle && middle < high;
       middle = 0.5 * (low + high)) {
    (normal_quantile({middle, 1 - middle}) < -z ? low : high) = middle;
  }
  return high;
}

}  // namespace

double normal_quantile(const Probability& probability) {
  const double middle = probability.from_middle();
  return is_tail(middle) ? std::copysign(tail_quantile(probability.tail()), middle)
                         : central_quantile(middle);
}

Probability normal_cdf(double z) {
  const double tail = tail_below(std::abs(z));
  return z < 0 ? Probability{tail, 1 - tail} : Probability{1 - tail, tail};
}

NormalParts normal_parts(double low, double high) {
  const Probability begin = normal_cdf(low);
  const Probability end = normal_cdf(high);
  // For the upper side, the complements are more precise.
  const double within = low > 0 ? begin.above - end.above : end.below - begin.below;
  return {begin.below, end.above, within};
}

}  // namespace tessera
