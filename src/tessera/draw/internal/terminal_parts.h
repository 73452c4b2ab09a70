#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tessera/base/color.h"

namespace tessera::draw::detail {

/// Where times stand in the lines of a chart.
struct TerminalTime {
  int64_t label = 0;    // Characters left of time 0.
  double per_time = 0;  // Characters per unit of time.
  double end = 0;

  double at(double time) const { return time * per_time; }
  int64_t column(double time) const;
};

/// The line of ticks and times below a chart.
std::string time_ruler(const TerminalTime& time, const TerminalOptions& options);

/// The entries of a legend, in lines that are not too long.
class TerminalLegend {
 public:
  explicit TerminalLegend(int64_t width) : width_(width) {}

  /// `paint` colours the sign, which is measured without colours.
  void add(const std::string& sign, std::string_view words,
           const std::function<std::string(const std::string&)>& paint = {});
  const std::string& text() const& { return text_; }
  std::string text() && { return std::move(text_); }

 private:
  int64_t width_;
  int64_t used_ = 0;  // Characters in the last line.
  std::string text_ = {};
};

}  // namespace tessera::draw::detail
