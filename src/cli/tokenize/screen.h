#pragma once

#include <unistd.h>

#include <chrono>

#include "cli/terminal.h"
#include "tessera/text/tokenize_files.h"

namespace tessera::cli {

/// Shows progress on stderr: a line redrawn in place on a terminal, otherwise one now and then.
class TokenizeScreen {
 public:
  TokenizeScreen() = default;
  /// Ends the line.
  ~TokenizeScreen();
  TokenizeScreen(const TokenizeScreen&) = delete;
  TokenizeScreen& operator=(const TokenizeScreen&) = delete;

  void show(const TokenizeProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kRedrawn{100};
  static constexpr std::chrono::milliseconds kLogged{5000};
  void draw(const TokenizeProgress& progress) const;

  bool terminal_ = obeys_escapes(STDERR_FILENO);
  bool begun_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + (terminal_ ? std::chrono::milliseconds(0) : kLogged);
};

}  // namespace tessera::cli
