#include "cli/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "cli/terminal.h"
#include "tessera/base/number_text.h"
#include "tessera/base/text.h"

namespace tessera::cli {
namespace {

constexpr std::chrono::milliseconds kRedrawn{100};
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

RedrawnBar::RedrawnBar() : terminal_(obeys_escapes(STDERR_FILENO)) {}

RedrawnBar::~RedrawnBar() {
  if (terminal_ && next_ != start_) std::cerr << kClearLine << std::flush;
}

bool RedrawnBar::is_due() {
  const Clock::time_point now = Clock::now();
  if (!terminal_ || now < next_) return false;
  next_ = now + kRedrawn;
  return true;
}

void RedrawnBar::draw(double share, const std::vector<ProgressPart>& parts) const {
  const TerminalOptions options{.width = terminal_width(STDERR_FILENO),
                                .color = color_mode("auto", STDERR_FILENO)};
  std::cerr << kClearLine + progress_line(share, parts, options) << std::flush;
}

double RedrawnBar::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

ProgressBar::ProgressBar(std::string label, int64_t total_bytes)
    : label_(std::move(label)), total_(std::max<int64_t>(total_bytes, 1)) {}

void ProgressBar::add(int64_t bytes) {
  done_ += bytes;
  if (bar_.is_due()) draw();
}

void ProgressBar::draw() const {
  const double share = std::min(static_cast<double>(done_) / static_cast<double>(total_), 1.0);
  const double rate = static_cast<double>(done_) / std::max(bar_.seconds(), 1e-3);
  bar_.draw(share, {{label_, 6},
                    {fixed(100 * share, 0) + " %", 5},
                    {concat(bytes_text(done_), " of ", bytes_text(total_)), 2},
                    {bytes_text(static_cast<int64_t>(rate)) + "/s", 3},
                    {clock_text(static_cast<double>(total_ - done_) / rate) + " left", 4}});
}

std::string bytes_text(int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (number >= 1e9) return fixed(number / 1e9, 2) + " GB";
  if (number >= 1e6) return fixed(number / 1e6, 1) + " MB";
  if (number >= 1e3) return fixed(number / 1e3, 1) + " KB";
  return concat(bytes, bytes == 1 ? " byte" : " bytes");
}

}  // namespace tessera::cli
