#include "tessera/schedule/generate.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/schedule/internal/families.h"

namespace tessera {
namespace {

constexpr int64_t kMostActions = int64_t{1} << 28;  // About ten gigabytes.

ScheduleConfig with_defaults(ScheduleConfig config) {
  if (config.stages_per_rank == 0) config.stages_per_rank = default_stages_per_rank(config.kind);
  return config;
}

int64_t num_stages(const ScheduleConfig& config) {
  return checked_multiply(config.pp, config.stages_per_rank, "pp × stages per rank");
}

void check_sizes(const ScheduleConfig& config) {
  TSR_CHECK(config.pp >= 1, "pp is ", config.pp, ", but must be at least 1");
  TSR_CHECK(config.microbatches >= 1, "microbatches is ", config.microbatches,
            ", but must be at least 1");
  TSR_CHECK(config.stages_per_rank >= 1, "stages per rank is ", config.stages_per_rank,
            ", but must be at least 1");
  const int64_t actions = checked_multiply(
      num_stages(config), checked_multiply(config.microbatches, 3, "microbatches"), "actions");
  TSR_CHECK(actions <= kMostActions, "pp ", config.pp, " × ", config.stages_per_rank,
            " stages per rank × ", config.microbatches, " microbatches is a table of up to ",
            with_thousands(actions), " actions; the limit is ", with_thousands(kMostActions));
}

void check_stages(const ScheduleConfig& config) {
  const bool single = is_single_stage(config.kind);
  const bool v = placement_of(config.kind) == StagePlacement::kV;
  TSR_CHECK(!single || config.stages_per_rank == 1, to_string(config.kind),
            " has one stage per rank, not ", config.stages_per_rank,
            "; choose Interleaved1F1B or LoopedBFS for more");
  TSR_CHECK(!v || config.stages_per_rank == 2, to_string(config.kind),
            " has exactly 2 stages per rank, not ", config.stages_per_rank,
            ", placed in a V; choose Interleaved1F1B for other numbers");
}

void check_at_least_stages(const ScheduleConfig& config) {
  TSR_CHECK(config.microbatches >= num_stages(config), to_string(config.kind),
            " needs at least as many microbatches as stages: ", config.microbatches,
            " microbatches, ", num_stages(config), " stages; raise microbatches to ",
            num_stages(config), " or choose GPipe");
}

bool comes_in_rounds(int64_t pp, int64_t microbatches) {
  return schedule::detail::microbatches_per_round(pp, microbatches) > 0;
}

void check_rounds(const ScheduleConfig& config) {
  if (comes_in_rounds(config.pp, config.microbatches)) return;
  const int64_t rounds = config.microbatches / config.pp;
  int64_t more = config.microbatches + 1;  // Ends at a multiple of pp at the latest.
  while (!comes_in_rounds(config.pp, more)) ++more;
  throw ConfigError(concat(
      to_string(config.kind), " needs equal rounds of microbatches: ", config.microbatches,
      " do not divide into ", rounds, " rounds (microbatches / pp, rounded down); nearest are ",
      config.microbatches / rounds * rounds, " and ", more));
}

void check_family(const ScheduleConfig& config) {
  switch (config.kind) {
    case ScheduleKind::k1F1B:
    case ScheduleKind::kDualPipeV:
      return check_at_least_stages(config);
    case ScheduleKind::kInterleaved1F1B:
    case ScheduleKind::kInterleavedZeroBubble:
      return check_rounds(config);
    case ScheduleKind::kGPipe:
    case ScheduleKind::kLoopedBFS:
    case ScheduleKind::kZBVZeroBubble:
      return;
    case ScheduleKind::kZBH1:
    case ScheduleKind::kZBH2:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
    case ScheduleKind::kAuto:
      break;
  }
  throw ConfigError(concat(to_string(config.kind), " cannot be generated; search for it instead"));
}

using MakeRow = ScheduleRow (*)(const schedule::detail::RankShape&);

MakeRow row_maker(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kGPipe:
      return schedule::detail::gpipe_row;
    case ScheduleKind::k1F1B:
      return schedule::detail::one_f_one_b_row;
    case ScheduleKind::kInterleaved1F1B:
      return schedule::detail::interleaved_row;
    case ScheduleKind::kLoopedBFS:
      return schedule::detail::looped_bfs_row;
    case ScheduleKind::kInterleavedZeroBubble:
      return schedule::detail::interleaved_zero_bubble_row;
    case ScheduleKind::kZBVZeroBubble:
      return schedule::detail::zbv_row;
    case ScheduleKind::kDualPipeV:
      return schedule::detail::dualpipev_row;
    case ScheduleKind::kZBH1:
    case ScheduleKind::kZBH2:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
    case ScheduleKind::kAuto:
      break;
  }
  TSR_ASSERT(false, to_string(kind), " has no row");
  return nullptr;
}

}  // namespace

void check_config(const ScheduleConfig& config) {
  const ScheduleConfig full = with_defaults(config);
  check_sizes(full);
  check_stages(full);
  check_family(full);
}

Schedule generate(const ScheduleConfig& config) {
  check_config(config);
  const ScheduleConfig full = with_defaults(config);
  const ScheduleShape shape{full.pp, num_stages(full), full.microbatches};
  const MakeRow make_row = row_maker(full.kind);
  std::vector<ScheduleRow> rows;
  rows.reserve(static_cast<size_t>(full.pp));
  for (int32_t rank = 0; rank < full.pp; ++rank) {
    rows.push_back(make_row({.pp = static_cast<int32_t>(full.pp),
                             .stages_per_rank = static_cast<int32_t>(full.stages_per_rank),
                             .microbatches = static_cast<int32_t>(full.microbatches),
                             .rank = rank}));
  }
  if (full.kind == ScheduleKind::kInterleavedZeroBubble)
    schedule::detail::align_forwards(rows, shape);
  return {std::string(to_string(full.kind)), shape, std::move(rows)};
}

std::vector<int64_t> microbatch_sizes(int64_t size, int64_t microbatches) {
  TSR_CHECK(size >= 0, "a batch of ", size, " rows cannot be split; the size must be at least 0");
  TSR_CHECK(microbatches >= 1, "microbatches is ", microbatches, ", but must be at least 1");
  std::vector<int64_t> sizes(static_cast<size_t>(std::min(size, microbatches)),
                             size / microbatches);
  for (int64_t i = 0; i < size % microbatches; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

}  // namespace tessera
