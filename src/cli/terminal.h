#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string_view>

#include "tessera/base/color.h"

namespace tessera::cli {

/// Whether a descriptor is a terminal that supports cursor movement and colours: TERM is not dumb.
bool obeys_escapes(int descriptor);

/// The colours of stdout, or of another descriptor. `choice` is auto, always or never; auto depends
/// on the terminal and NO_COLOR.
ColorMode color_mode(std::string_view choice, int descriptor = 1);

/// Characters per line of stdout, or of another descriptor; 120 if it is not a terminal.
int64_t terminal_width(int descriptor = 1);

/// During its lifetime, std::cout and std::cerr are ASCII if the locale is not UTF-8.
class PlainStreams {
 public:
  PlainStreams();
  PlainStreams(const PlainStreams&) = delete;
  PlainStreams& operator=(const PlainStreams&) = delete;
  ~PlainStreams();

 private:
  class Filter;
  std::unique_ptr<Filter> out_, err_;  // Null if the locale is UTF-8.
};

/// stdout for machine-readable output: JSON, tables and pictures, independent of the locale.
std::ostream& data_out();

}  // namespace tessera::cli
