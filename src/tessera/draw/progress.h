#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The progress of a training run.
struct Progress {
  int64_t step = 0;                                      // Steps done.
  int64_t steps = 0;                                     // Steps in total.
  double loss = 0;                                       // Of the last step.
  std::optional<double> validation_loss = std::nullopt;  // The most recent one.
  double tokens_per_s = 0;                               // Of the last step, over all ranks.
  double ms = 0;                                         // Per step.
  double elapsed_s = 0;                                  // Since this run began.
  int64_t begin = 0;                                     // Steps done before, if it was resumed.
};

/// Words beside a bar.
struct ProgressPart {
  std::string text;  // E.g. "loss 2.134".
  int importance;    // If room is short, the lowest one is dropped first.
};

/// One line of at most options.width characters, without a newline: a bar for the share that is
/// done, then as many parts as fit.
std::string progress_line(double share, std::vector<ProgressPart> parts,
                          const TerminalOptions& options);

/// The same for a run: the loss is the most important part. To redraw it in place, write a carriage
/// return before it.
std::string progress_line(const Progress& progress, const TerminalOptions& options);

/// The same for a pipe or a log, never shortened: "step 120/230  loss 2.134  …".
std::string progress_text(const Progress& progress);

/// "48 s", "12:03", "3:20:00".
std::string clock_text(double seconds);

}  // namespace tessera
