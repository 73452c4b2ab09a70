#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/schedule/kind.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// Which schedule is wanted, and its sizes.
struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::k1F1B;  // generate() refuses searched kinds.
  int64_t pp = 1;                           // Ranks per pipeline.
  int64_t microbatches = 1;                 // Per step.
  int64_t stages_per_rank = 0;              // 0: default_stages_per_rank(kind).

  friend bool operator==(const ScheduleConfig&, const ScheduleConfig&) = default;
};

/// The compute table of a family, with idle slots that align it to time steps if PyTorch's table
/// has them. ConfigError with the family's rule and valid values if a value breaks it; refuses
/// kinds that need a search.
Schedule generate(const ScheduleConfig& config);

/// Throws the same errors without generating the table.
void check_config(const ScheduleConfig& config);

/// The rows per microbatch for a batch of `size`: if it does not divide evenly, the first ones get
/// one more; a smaller batch than `microbatches` gives fewer microbatches.
std::vector<int64_t> microbatch_sizes(int64_t size, int64_t microbatches);

}  // namespace tessera
