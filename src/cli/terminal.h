#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string_view>

#include "tessera/base/color.h"

namespace tessera::cli {

/// Whether a descriptor leads to a terminal that moves its cursor and knows colours: TERM is not
/// dumb.
bool obeys_escapes(int descriptor);

/// What stdout, or another descriptor, can show. `choice` is auto, always or never; auto asks the
/// terminal and NO_COLOR.
ColorMode color_mode(std::string_view choice, int descriptor = 1);

/// Characters in a line of stdout, or of another descriptor; 120 where it is no terminal.
int64_t terminal_width(int descriptor = 1);

/// While it lives, what goes to std::cout and std::cerr is ASCII where the locale is not UTF-8.
class PlainStreams {
 public:
  PlainStreams();
  PlainStreams(const PlainStreams&) = delete;
  PlainStreams& operator=(const PlainStreams&) = delete;
  ~PlainStreams();

 private:
  class Filter;
  std::unique_ptr<Filter> out_, err_;  // None where the locale is UTF-8.
};

/// stdout for programs: JSON, tables and pictures, whatever the locale is.
std::ostream& data_out();

}  // namespace tessera::cli
