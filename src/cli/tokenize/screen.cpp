#include "cli/tokenize/screen.h"

#include <iostream>
#include <utility>

#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/draw/progress.h"

namespace tessera::cli {
namespace {

constexpr const char* kRestOfLine = "\x1b[K";  // Clears the rest of a longer previous line.

}  // namespace

TokenizeScreen::~TokenizeScreen() {
  if (terminal_ && begun_) std::cerr << '\n';
}

void TokenizeScreen::show(const TokenizeProgress& progress) {
  const Clock::time_point now = Clock::now();
  const bool last = progress.bytes == progress.total_bytes;
  if (now < next_ && !last) return;
  next_ = now + (terminal_ ? kRedrawn : kLogged);
  if (!terminal_ && !begun_ && last) return;  // It was over before there was anything to tell.
  begun_ = true;
  draw(progress);
}

void TokenizeScreen::draw(const TokenizeProgress& progress) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto done = static_cast<double>(progress.bytes - progress.resumed_bytes);
  const double rate = seconds > 0 ? done / seconds : 0;
  const auto left = static_cast<double>(progress.total_bytes - progress.bytes);
  std::vector<ProgressPart> parts{
      {percent(progress.total_bytes == 0 ? 1
                                         : static_cast<double>(progress.bytes) /
                                               static_cast<double>(progress.total_bytes)),
       5},
      {concat(with_thousands(progress.tokens), " tokens"), 3},
      {concat(fixed(rate / 1e6, 1), " MB/s"), 2}};
  if (rate > 0) parts.push_back({clock_text(left / rate) + " left", 4});
  if (!terminal_) {
    std::vector<std::string> words;
    for (const ProgressPart& part : parts) words.push_back(part.text);
    std::cerr << join(words, "  ") + "\n";
    return;
  }
  const TerminalOptions options{.width = terminal_width(STDERR_FILENO),
                                .color = color_mode("auto", STDERR_FILENO)};
  const double share = progress.total_bytes == 0 ? 1
                                                 : static_cast<double>(progress.bytes) /
                                                       static_cast<double>(progress.total_bytes);
  std::cerr << '\r' + progress_line(share, std::move(parts), options) + kRestOfLine << std::flush;
}

}  // namespace tessera::cli
