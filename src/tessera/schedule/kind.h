#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The families of pipeline schedules.
enum class ScheduleKind {
  kGPipe,
  k1F1B,
  kInterleaved1F1B,
  kLoopedBFS,
  kInterleavedZeroBubble,
  kZBVZeroBubble,
  kDualPipeV,
  // The kinds below are found by a search, not generated.
  kZBH1,
  kZBH2,
  kVHalf,
  kVMin,
  kAuto,
};

/// How stages are placed on ranks.
enum class StagePlacement {
  kLoop,  // Stage s on rank s mod p.
  kV,     // Forth and back: stages p - 1 and p share rank p - 1.
};

/// "Interleaved1F1B", "ZBH1".
std::string_view to_string(ScheduleKind kind);
/// "loop", "v".
std::string_view to_string(StagePlacement placement);

/// The kind of this name, in upper or lower case; "interleaved" and "zbv" are Interleaved1F1B and
/// ZBVZeroBubble. ConfigError with the nearest name for other names.
ScheduleKind parse_schedule_kind(std::string_view text);

/// Every name that parse_schedule_kind accepts, in lower case.
std::vector<std::string> schedule_kind_names();

/// Whether `generate` makes it; the search finds the others.
bool is_generated(ScheduleKind kind);
/// Whether a rank has exactly one stage.
bool is_single_stage(ScheduleKind kind);
/// 1, or 2 for kinds with several stages per rank.
int64_t default_stages_per_rank(ScheduleKind kind);
/// Which stages lie on which rank.
StagePlacement placement_of(ScheduleKind kind);

/// The rank of each stage. ConfigError if the stages cannot form a V.
std::vector<int32_t> place_stages(StagePlacement placement, int64_t pp, int64_t num_stages);

}  // namespace tessera
