#pragma once

#include <vector>

#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

/// The shape of a table and one of its ranks, in small integers.
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

/// The row before alignment with the others: call align_forwards afterwards.
ScheduleRow interleaved_zero_bubble_row(const RankShape& shape);
/// Advances all ranks in time steps and delays each forward by idle slots until its predecessor
/// was in an earlier step. Never delays other actions.
void align_forwards(std::vector<ScheduleRow>& rows, const ScheduleShape& shape);

/// Microbatches that pass a stage before the rank switches to its next stage; 0 if the microbatches
/// do not divide into equal rounds.
int64_t microbatches_per_round(int64_t pp, int64_t microbatches);

}  // namespace tessera::schedule::detail
