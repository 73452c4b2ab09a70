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

ProgressBar::ProgressBar(std::string label, int64_t total_bytes)
    : label_(std::move(label)),
      total_(std::max<int64_t>(total_bytes, 1)),
      terminal_(obeys_escapes(STDERR_FILENO)) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && next_ != start_) std::cerr << kClearLine << std::flush;
}

void ProgressBar::add(int64_t bytes) {
  done_ += bytes;
  const Clock::time_point now = Clock::now();
  if (!terminal_ || now < next_) return;
  next_ = now + kRedrawn;
  draw();
}

void ProgressBar::draw() const {
  constexpr int64_t kCells = 24;
  const double share = std::min(static_cast<double>(done_) / static_cast<double>(total_), 1.0);
  const auto full = static_cast<int64_t>(share * kCells);
  std::string bar;
  for (int64_t i = 0; i < kCells; ++i) bar += i < full ? "█" : "░";
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto rate = static_cast<int64_t>(static_cast<double>(done_) / std::max(seconds, 1e-3));
  std::cerr << concat(kClearLine, label_, " ", bar, " ", fixed(100 * share, 0), " %  ",
                      bytes_text(done_), " of ", bytes_text(total_), "  ", bytes_text(rate), "/s")
            << std::flush;
}

std::string bytes_text(int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (number >= 1e9) return fixed(number / 1e9, 2) + " GB";
  if (number >= 1e6) return fixed(number / 1e6, 1) + " MB";
  if (number >= 1e3) return fixed(number / 1e3, 1) + " KB";
  return concat(bytes, bytes == 1 ? " byte" : " bytes");
}

}  // namespace tessera::cli
