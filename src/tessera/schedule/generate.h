#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/schedule/kind.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int64_t pp = 1;
  int64_t microbatches = 1;
  int64_t stages_per_rank = 0;  // 0: default_stages_per_rank(kind).

  friend bool operator==(const ScheduleConfig&, const ScheduleConfig&) = default;
};

/// The compute table of a family, with the idle slots that align it to time steps where its peer
/// writes them. ConfigError names the rule of the family that a value breaks, and values that
/// would do; kinds that are searched are refused.
Schedule generate(const ScheduleConfig& config);

/// The same refusals without making the table.
void check_config(const ScheduleConfig& config);

/// How many rows of a batch of `size` each microbatch gets: the first ones get one more where it
/// does not come out even, and a batch smaller than their number gives fewer microbatches.
std::vector<int64_t> microbatch_sizes(int64_t size, int64_t microbatches);

}  // namespace tessera
