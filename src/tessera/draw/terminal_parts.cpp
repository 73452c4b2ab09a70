#include "tessera/draw/internal/terminal_parts.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/text.h"
#include "tessera/draw/internal/axis.h"

namespace tessera::draw::detail {
namespace {

constexpr int64_t kMarkDistance = 10;  // Minimum, in characters.

}  // namespace

int64_t TerminalTime::column(double time) const {
  return std::llround(at(time));
}

std::string time_ruler(const TerminalTime& time, const TerminalOptions& options) {
  if (time.end <= 0) return "";
  const int64_t most = std::max<int64_t>(1, time.column(time.end) / kMarkDistance);
  const double step = round_step(time.end, most);
  std::string line(static_cast<size_t>(time.label), ' ');
  for (int64_t mark = 0; static_cast<double>(mark) * step <= time.end * 1.000001; ++mark) {
    const double value = static_cast<double>(mark) * step;
    const auto at = static_cast<size_t>(time.label + time.column(value));
    const std::string text = concat("|", value);
    if (at + text.size() > static_cast<size_t>(options.width)) break;
    line.resize(std::max(line.size(), at), ' ');
    line += text;
  }
  return concat(faint(line, options.color), "\n");
}

void TerminalLegend::add(const std::string& sign, std::string_view words,
                         const std::function<std::string(const std::string&)>& paint) {
  const auto size = static_cast<int64_t>(sign.size() + 1 + words.size());
  const bool full = used_ > 0 && used_ + 3 + size > width_;
  text_ += concat(full ? "\n" : (used_ > 0 ? "   " : ""), paint ? paint(sign) : sign, " ", words);
  used_ = (full || used_ == 0 ? 0 : used_ + 3) + size;
}

}  // namespace tessera::draw::detail
