#pragma once

#include <string>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"
#include "tessera/launch/failure.h"

namespace tessera TSR_API {

/// What happens after a failure.
struct Verdict {
  int64_t restart = 0;  // The number of the restart that follows; 0: none follows.
  int64_t max_restarts = 0;
  bool healthy = true;  // Whether all ranks had connected before.

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// The report of a failure: the first failure, how the other ranks of this node ended, and what
/// happens next.
struct FailureBlock {
  Failure failure = {};
  Verdict verdict = {};
  std::vector<RankEnd> others = {};  // On this node.
  int64_t nnodes = 1;
  int64_t node = 0;       // This node.
  std::string logs = "";  // The folder of this attempt's logs, or "".
  double grace_seconds = 5;

  std::string to_string(int64_t width, ColorMode color) const;
};

}  // namespace tessera
