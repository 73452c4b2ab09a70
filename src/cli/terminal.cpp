#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace tessera::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

ColorMode color_mode(std::string_view choice, int descriptor) {
  const bool wanted =
      isatty(descriptor) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  if (choice == "never" || (choice == "auto" && !wanted)) return ColorMode::kNone;
  const std::string depth = variable("COLORTERM");
  return depth == "truecolor" || depth == "24bit" ? ColorMode::kTrueColor : ColorMode::k256;
}

int64_t terminal_width(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 120;
}

}  // namespace tessera::cli
