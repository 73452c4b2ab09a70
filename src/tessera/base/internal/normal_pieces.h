#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tessera::base::detail {

// The two pieces of normal_quantile, without branches. The coefficients are our own minimax fits
// (Remez), in variables in which all are positive, so that sums lose no digits.

template <size_t size>
[[gnu::always_inline]] inline double polynomial(const std::array<double, size>& coefficients,
                                                double x) {
  double sum = coefficients[size - 1];
  for (size_t i = size - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

/// The half-width of the central piece.
inline constexpr double kCentre = 0.425;

inline bool is_tail(double middle) {
  return std::abs(middle) > kCentre;
}

/// The quantile of probability 1/2 + middle, for |middle| up to kCentre; error of the fit 7·10^-17.
[[gnu::always_inline]] inline double central_quantile(double middle) {
  constexpr std::array above{3.3871328727963665, 133.14164538340756, 1971.5901954134124,
                             13731.68474378906,  45921.907476280205, 67265.67198834568,
                             33430.50673143955,  2509.0739060609};
  constexpr std::array below{1.0,
                             42.313324056341436,
                             687.1867646505067,
                             5394.192774677323,
                             21213.77480148882,
                             39307.843711193105,
                             28729.032874033503,
                             5226.482322361595};
  const double x = kCentre * kCentre - middle * middle;
  return middle * polynomial(above, x) / polynomial(below, x);
}

/// The natural logarithm of a normal number from 2^-1022 on.
[[gnu::always_inline]] inline double logarithm(double value) {
  constexpr uint64_t root_half = std::bit_cast<uint64_t>(0x1.6a09e667f3bcdp-1);
  constexpr uint64_t fraction = (uint64_t{1} << 52) - 1;
  // value = mantissa · 2^exponent, the mantissa from sqrt(1/2) to sqrt(2).
  const uint64_t bits = std::bit_cast<uint64_t>(value) - root_half + std::bit_cast<uint64_t>(1.0);
  const double mantissa = std::bit_cast<double>((bits & fraction) + root_half);
  // An integer below 2^52 becomes a double by placing it in the fraction of 2^52, as vectors can.
  const double exponent =
      std::bit_cast<double>(std::bit_cast<uint64_t>(0x1p52) | bits >> 52) - (0x1p52 + 1023);
  // ln m = 2 artanh s, by its series.
  constexpr std::array series{2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9, 2.0 / 11,
                              2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  const double s = (mantissa - 1) / (mantissa + 1);
  return exponent * 0.6931471805599453 + s * polynomial(series, s * s);
}

/// The z that has `tail` above it, for tails from kSmallestTail to 1/2 - kCentre; error 4·10^-17.
[[gnu::always_inline]] inline double tail_quantile(double tail) {
  constexpr std::array above{1.4234371107496837,   4.641530349969038,     5.825506034409005,
                             3.7521081516348205,   1.3630201728399218,    0.28379850014358554,
                             0.032284997915022665, 0.0017446524736743486, 3.13832875559645e-05};
  constexpr std::array below{1.0,
                             2.0610546391502105,
                             1.706298876483406,
                             0.7278033158363809,
                             0.16977570739854517,
                             0.02097902470288481,
                             0.001198268263516119,
                             2.2190811828907666e-05};
  const double x = std::sqrt(-logarithm(tail)) - 1.6;
  return polynomial(above, x) / polynomial(below, x);
}

}  // namespace tessera::base::detail
