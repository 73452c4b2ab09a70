#pragma once

#include <vector>

#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

/// One rank's share of a family's shape, in small integers.
struct RankShape {
  int32_t pp = 1;
  int32_t stages_per_rank = 1;
  int32_t microbatches = 1;
  int32_t rank = 0;
};

ScheduleRow gpipe_row(const RankShape& shape);
ScheduleRow one_f_one_b_row(const RankShape& shape);
ScheduleRow looped_bfs_row(const RankShape& shape);
ScheduleRow interleaved_row(const RankShape& shape);
ScheduleRow zbv_row(const RankShape& shape);
ScheduleRow dualpipev_row(const RankShape& shape);

/// The row before it is aligned with the others: align_forwards has to follow.
ScheduleRow interleaved_zero_bubble_row(const RankShape& shape);
/// Lets all ranks advance by time steps and puts off each forward, by idle slots, until its
/// predecessor's was in an earlier step. Other actions are never put off.
void align_forwards(std::vector<ScheduleRow>& rows, const ScheduleShape& shape);

/// How many microbatches pass a stage before the next stage of the same rank has its turn; 0 where
/// the microbatches do not come in even rounds.
int64_t microbatches_per_round(int64_t pp, int64_t microbatches);

}  // namespace tessera::schedule::detail
