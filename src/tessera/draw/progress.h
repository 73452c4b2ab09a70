#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/color.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// How far a training run is.
struct Progress {
  int64_t step = 0;                                      // Steps done,
  int64_t steps = 0;                                     // of so many.
  double loss = 0;                                       // Of the last step.
  std::optional<double> validation_loss = std::nullopt;  // The last one.
  double tokens_per_s = 0;
  double ms = 0;         // Time of a step.
  double elapsed_s = 0;  // Since this run began,
  int64_t begin = 0;     // after so many steps where it was resumed.
};

/// One line of at most options.width characters, without an end: a bar, then as much as fits, the
/// loss first. Redrawn in place by a carriage return before it.
std::string progress_line(const Progress& progress, const TerminalOptions& options);

/// The same for a pipe or a log, always whole: "step 120/230  loss 2.134  …".
std::string progress_text(const Progress& progress);

/// "48 s", "12:03", "3:20:00".
std::string clock_text(double seconds);

}  // namespace tessera
