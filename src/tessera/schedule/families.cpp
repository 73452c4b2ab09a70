// The rows of families whose stages lie in a loop.
#include <algorithm>
#include <deque>

#include "tessera/schedule/internal/families.h"
#include "tessera/schedule/internal/row_writer.h"
#include "tessera/schedule/internal/stage_grid.h"

namespace tessera::detail {
namespace {

using enum ActionType;

int32_t num_stages(const RankShape& shape) {
  return shape.pp * shape.stages_per_rank;
}

/// Which stage the j-th forward or backward of a rank is for: its stages take turns of a round.
class Turns {
 public:
  explicit Turns(const RankShape& shape)
      : shape_(shape),
        per_round_(static_cast<int32_t>(microbatches_per_round(shape.pp, shape.microbatches))) {}

  int32_t total() const { return shape_.microbatches * shape_.stages_per_rank; }
  int32_t forward_stage(int32_t j) const { return stage(turn(j)); }
  int32_t backward_stage(int32_t j) const { return stage(shape_.stages_per_rank - 1 - turn(j)); }
  /// Forwards before the first backward, where a microbatch takes `steps` slots to come back from
  /// the next rank.
  int32_t warm_up(int32_t steps) const {
    return std::min(
        (shape_.stages_per_rank - 1) * per_round_ + steps * (shape_.pp - 1 - shape_.rank), total());
  }

 private:
  int32_t turn(int32_t j) const { return j / per_round_ % shape_.stages_per_rank; }
  int32_t stage(int32_t local) const { return local * shape_.pp + shape_.rank; }

  RankShape shape_;
  int32_t per_round_;
};

}  // namespace

int64_t microbatches_per_round(int64_t pp, int64_t microbatches) {
  const int64_t rounds = std::max<int64_t>(1, microbatches / pp);
  return microbatches % rounds == 0 ? microbatches / rounds : 0;
}

ScheduleRow gpipe_row(const RankShape& shape) {
  RowWriter row(num_stages(shape));
  for (int32_t i = 0; i < shape.microbatches; ++i) row.next(kForward, shape.rank);
  for (int32_t i = 0; i < shape.microbatches; ++i) row.next(kBackward, shape.rank);
  return row.take_row();
}

ScheduleRow one_f_one_b_row(const RankShape& shape) {
  RowWriter row(num_stages(shape));
  const int32_t warm_up = std::min(shape.microbatches, shape.pp - shape.rank);
  for (int32_t i = 0; i < warm_up; ++i) row.next(kForward, shape.rank);
  for (int32_t i = 0; i < shape.microbatches; ++i) {
    row.next(kBackward, shape.rank);
    if (warm_up + i < shape.microbatches) row.next(kForward, shape.rank);
  }
  return row.take_row();
}

ScheduleRow looped_bfs_row(const RankShape& shape) {
  RowWriter row(num_stages(shape));
  row.idle(shape.rank);
  for (int32_t stage = shape.rank; stage < num_stages(shape); stage += shape.pp) {
    for (int32_t i = 0; i < shape.microbatches; ++i) row.next(kForward, stage);
  }
  row.idle(2 * (shape.pp - 1 - shape.rank));
  ScheduleRow actions = row.take_row();
  for (int32_t stage = num_stages(shape) - shape.pp + shape.rank; stage >= 0; stage -= shape.pp) {
    for (int32_t i = shape.microbatches - 1; i >= 0; --i) {
      actions.emplace_back(Task{.type = kBackward, .stage = stage, .microbatch = i});
    }
  }
  return actions;
}

ScheduleRow interleaved_row(const RankShape& shape) {
  const Turns turns(shape);
  const int32_t warm_up = turns.warm_up(2);
  const int32_t left = shape.pp - 1 - shape.rank;
  RowWriter row(num_stages(shape));
  row.idle(shape.rank);
  for (int32_t j = 0; j < warm_up; ++j) row.next(kForward, turns.forward_stage(j));
  if (warm_up > 0) row.idle(num_stages(shape) + 2 * left - warm_up - shape.rank);
  for (int32_t j = 0; j < turns.total(); ++j) {
    const int32_t forward = warm_up + j;
    if (forward < turns.total()) {
      row.next(kForward, turns.forward_stage(forward));
    } else {
      row.idle(1);
    }
    row.next(kBackward, turns.backward_stage(j));
  }
  return row.take_row();
}

ScheduleRow interleaved_zero_bubble_row(const RankShape& shape) {
  const Turns turns(shape);
  const int32_t warm_up = turns.warm_up(1);
  RowWriter row(num_stages(shape));
  row.idle(shape.rank);
  for (int32_t j = 0; j < warm_up; ++j) row.next(kForward, turns.forward_stage(j));
  row.idle(shape.pp - 1 - shape.rank);
  int32_t weights = 0;
  for (int32_t j = 0; j < turns.total(); ++j) {
    const int32_t forward = warm_up + j;
    if (forward < turns.total()) row.next(kForward, turns.forward_stage(forward));
    row.next(kInputGrad, turns.backward_stage(j));
    if (j >= shape.rank) row.next(kWeightGrad, turns.backward_stage(weights++));
  }
  while (weights < turns.total()) row.next(kWeightGrad, turns.backward_stage(weights++));
  return row.take_row();
}

std::vector<ScheduleRow> align_forwards(const std::vector<ScheduleRow>& rows,
                                        const ScheduleShape& shape) {
  constexpr int32_t kNever = -1;
  StageGrid<int32_t> forward_step(shape, kNever);
  std::vector<ScheduleRow> aligned(rows.size());
  std::vector<size_t> next(rows.size(), 0);
  size_t unfinished = rows.size();
  for (int32_t step = 0; unfinished > 0; ++step) {
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      if (next[rank] == rows[rank].size()) continue;
      const Action& action = rows[rank][next[rank]];
      if (action.type() == kForward) {
        const Task& task = action.tasks()[0];
        const int32_t before =
            task.stage == 0 ? kNever : forward_step(task.stage - 1, task.microbatch);
        const bool early = task.stage > 0 && (before == kNever || before == step);
        if (early) {
          aligned[rank].emplace_back();
          continue;
        }
        forward_step(task.stage, task.microbatch) = step;
      }
      aligned[rank].push_back(action);
      if (++next[rank] == rows[rank].size()) --unfinished;
    }
  }
  return aligned;
}

}  // namespace tessera::detail
