#pragma once

#include <string>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"
#include "tessera/launch/failure.h"

namespace tessera TSR_API {

/// What happens after a failure.
struct Verdict {
  int64_t restart = 0;       // The number of the restart that follows; 0: none follows.
  int64_t max_restarts = 0;  // Restarts that the whole job may have.
  bool healthy = true;       // Whether all ranks had connected before.

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// The report of a failure: the first failure, how the other ranks of this node ended, and what
/// happens next.
struct FailureBlock {
  Failure failure = {};              // The first one.
  Verdict verdict = {};              // Whether a restart follows.
  std::vector<RankEnd> others = {};  // On this node.
  int64_t nnodes = 1;                // Of the whole job.
  int64_t node = 0;                  // This node.
  std::string logs = "";             // The folder of this attempt's logs, or "".
  double grace_seconds = 5;          // From SIGTERM to SIGKILL.

  /// Wrapped at `width` characters, but not below 40 or above 120.
  std::string to_string(int64_t width, ColorMode color) const;
};

}  // namespace tessera
