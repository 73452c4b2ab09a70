#include "tessera/launch/screen.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tessera/base/environment.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

bool lead_to_the_same(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

Screen::Screen(const LaunchOptions& options, EventLoop& loop)
    : options_(options), out_(loop, STDOUT_FILENO) {
  if (!lead_to_the_same(STDOUT_FILENO, STDERR_FILENO)) {
    err_ = std::make_unique<Sink>(loop, STDERR_FILENO);
  }
}

void Screen::say(const std::string& words) {
  show(concat("tessera run: ", visible_lines(words), "\n"));
}

void Screen::show(const std::string& text) {
  err().write(speaks_utf8(process_environment()) ? text : to_ascii(text));
}

std::string Screen::prefix(GlobalRank rank, ColorMode color) const {
  const size_t width = std::to_string(options_.world_size() - 1).size();
  std::string number = concat(rank);
  number.insert(0, width - number.size(), ' ');
  return concat(on_color(concat("[", number, "]"), group_color(rank.value), color), " ");
}

}  // namespace tessera
