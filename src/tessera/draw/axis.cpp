#include "tessera/draw/internal/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tessera/base/check.h"

namespace tessera::draw::detail {
namespace {

// Keeps rounding from dropping the first or last tick.
constexpr double kSlack = 1e-6;

// Gives an axis that holds a single value two different ends.
void widen(double& least, double& greatest) {
  if (greatest > least) return;
  const double room = least == 0 ? 1 : std::abs(least) / 10;
  least -= room;
  greatest += room;
}

ValueAxis exact_axis(double least, double greatest, int64_t most) {
  widen(least, greatest);
  return {least, greatest, round_step(greatest - least, most)};
}

CurvePoint mean_of(std::span<const CurvePoint> points) {
  CurvePoint sum;
  for (const CurvePoint& point : points) {
    sum.x += point.x;
    sum.y += point.y;
  }
  const auto count = static_cast<double>(points.size());
  return {sum.x / count, sum.y / count};
}

}  // namespace

double round_step(double length, int64_t most) {
  TSR_ASSERT(length > 0 && most > 0, "an axis without length has no marks");
  const double rough = length / static_cast<double>(most);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::vector<double> ValueAxis::marks() const {
  std::vector<double> marks;
  const double first = std::ceil(low / step - kSlack);
  const auto count = static_cast<int64_t>(std::floor(high / step + kSlack) - first) + 1;
  for (int64_t i = 0; i < count; ++i) {
    const double mark = (first + static_cast<double>(i)) * step;
    marks.push_back(mark == 0 ? 0 : mark);  // Avoids -0.
  }
  return marks;
}

ValueAxis step_axis(double least, double greatest, int64_t most) {
  ValueAxis axis = exact_axis(least, greatest, most);
  axis.step = std::max(axis.step, 1.0);
  return axis;
}

ValueAxis round_axis(double least, double greatest, int64_t most) {
  const ValueAxis exact = exact_axis(least, greatest, most);
  return {std::floor(exact.low / exact.step + kSlack) * exact.step,
          std::ceil(exact.high / exact.step - kSlack) * exact.step, exact.step};
}

CurveExtent extent_of(std::span<const CurveSeries> series) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  CurveExtent extent{kNone, -kNone, kNone, -kNone};
  for (const CurveSeries& one : series) {
    for (const CurvePoint& point : one.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      extent.x_least = std::min(extent.x_least, point.x);
      extent.x_greatest = std::max(extent.x_greatest, point.x);
      extent.y_least = std::min(extent.y_least, point.y);
      extent.y_greatest = std::max(extent.y_greatest, point.y);
    }
  }
  return extent.x_least == kNone ? CurveExtent() : extent;
}

std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, size_t most) {
  const size_t count = std::min(points.size(), most);
  std::vector<CurvePoint> means;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * points.size() / count;
    const size_t end = (i + 1) * points.size() / count;
    means.push_back(mean_of(points.subspan(begin, end - begin)));
  }
  return means;
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace tessera::draw::detail
