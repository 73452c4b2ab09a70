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
  bool healthy = true;  // Whether all ranks had met before.

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// One piece of text about a failure: what came first, what became of the others on this node, and
/// what happens next.
struct FailureBlock {
  Failure failure = {};
  Verdict verdict = {};
  std::vector<RankEnd> others = {};  // Of this node.
  int64_t nnodes = 1;
  int64_t node = 0;       // This one.
  std::string logs = "";  // The folder of this attempt's logs; "" where there is none.
  double grace_seconds = 5;

  std::string to_string(int64_t width, ColorMode color) const;
};

}  // namespace tessera
