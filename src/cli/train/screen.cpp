#include "cli/train/screen.h"

#include <unistd.h>

#include <iostream>

#include "cli/terminal.h"
#include "tessera/base/number_text.h"
#include "tessera/base/text.h"

namespace tessera::cli {
namespace {

constexpr std::chrono::milliseconds kRedrawn{100};
constexpr std::chrono::milliseconds kLogged{1000};
constexpr const char* kRestOfLine = "\x1b[K";  // Clears the rest of a longer previous line.

}  // namespace

TrainScreen::TrainScreen(int64_t steps, int64_t begin) : terminal_(obeys_escapes(STDERR_FILENO)) {
  progress_.steps = steps;
  progress_.begin = begin;
}

TrainScreen::~TrainScreen() {
  if (terminal_ && begun_) std::cerr << '\n';
}

void TrainScreen::show(const StepMetrics& metrics) {
  if (metrics.skipped || metrics.rolled_back_to) say_bad(metrics);
  const Clock::time_point now = Clock::now();
  progress_.step = metrics.step + 1;
  progress_.loss = metrics.loss;
  progress_.tokens_per_s = metrics.tokens_per_s;
  progress_.ms = metrics.ms;
  progress_.elapsed_s = std::chrono::duration<double>(now - start_).count();
  if (metrics.validation_loss) progress_.validation_loss = metrics.validation_loss;
  const bool last = progress_.step == progress_.steps;
  if (now < next_ && !last) return;
  next_ = now + (terminal_ ? kRedrawn : kLogged);
  begun_ = true;
  draw();
}

void TrainScreen::say(const std::string& line) const {
  std::cerr << concat(terminal_ ? "\r" : "", line, terminal_ ? kRestOfLine : "", "\n");
  if (terminal_ && begun_) draw();
}

void TrainScreen::say_bad(const StepMetrics& metrics) const {
  const std::string scale = metrics.loss_scale ? concat(", loss scale ", *metrics.loss_scale) : "";
  const std::string action = metrics.skipped
                                 ? " was skipped"
                                 : concat(" was undone: the run continues with the weights after ",
                                          *metrics.rolled_back_to, " steps");
  say(concat("step ", metrics.step, action, metrics.spike ? " (spike)" : "", ": loss ",
             fixed(metrics.loss, 3), ", gradient norm ", fixed(metrics.grad_norm, 3), scale));
}

void TrainScreen::draw() const {
  if (!terminal_) {
    std::cerr << progress_text(progress_) + "\n";
    return;
  }
  const TerminalOptions options{.width = terminal_width(STDERR_FILENO),
                                .color = color_mode("auto", STDERR_FILENO)};
  std::cerr << '\r' + progress_line(progress_, options) + kRestOfLine << std::flush;
}

}  // namespace tessera::cli
