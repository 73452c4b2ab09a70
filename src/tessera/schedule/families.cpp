// The rows of families with loop placement of stages.
#include <algorithm>
#include <limits>

#include "tessera/base/reversed.h"
#include "tessera/schedule/internal/families.h"
#include "tessera/schedule/internal/row_writer.h"
#include "tessera/schedule/internal/stage_grid.h"

namespace tessera::schedule::detail {
namespace {

using enum ActionType;

int32_t num_stages(const RankShape& shape) {
  return shape.pp * shape.stages_per_rank;
}

// For a row in which each microbatch takes `slots` slots per stage.
RowWriter writer(const RankShape& shape, int32_t slots) {
  const int32_t alignment = 4 * shape.pp;
  return {num_stages(shape), shape.stages_per_rank * shape.microbatches * slots + alignment};
}

/// The order of a rank's stages in its forwards or backwards: each has one round at a time.
class Turns {
 public:
  enum class Direction { kUp, kDown };

  Turns(const RankShape& shape, Direction direction)
      : shape_(shape), per_round_(per_round(shape)), direction_(direction) {}

  static int32_t per_round(const RankShape& shape) {
    return static_cast<int32_t>(microbatches_per_round(shape.pp, shape.microbatches));
  }

  int32_t next() {
    if (in_turn_++ == per_round_) {
      in_turn_ = 1;
      if (++turn_ == shape_.stages_per_rank) turn_ = 0;
    }
    const bool up = direction_ == Direction::kUp;
    return (up ? turn_ : shape_.stages_per_rank - 1 - turn_) * shape_.pp + shape_.rank;
  }

 private:
  RankShape shape_;
  int32_t per_round_;
  Direction direction_;
  int32_t turn_ = 0;
  int32_t in_turn_ = 0;
};

// Forwards before the first backward if a microbatch takes `steps` slots to return from the next
// rank.
int32_t warm_up_of(const RankShape& shape, int32_t steps) {
  return std::min(
      (shape.stages_per_rank - 1) * Turns::per_round(shape) + steps * (shape.pp - 1 - shape.rank),
      shape.microbatches * shape.stages_per_rank);
}

// By rank: the columns before which to insert an idle slot; ascending, one entry per slot.
using Delays = std::vector<std::vector<size_t>>;

Delays delays_of(const std::vector<ScheduleRow>& rows, const ScheduleShape& shape) {
  StageGrid<int32_t> done_at(shape, std::numeric_limits<int32_t>::max());  // Step of each forward.
  Delays delays(rows.size());
  std::vector<size_t> next(rows.size(), 0);
  size_t unfinished = rows.size();
  for (int32_t step = 0; unfinished > 0; ++step) {
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      if (next[rank] == rows[rank].size()) continue;
      const Action& action = rows[rank][next[rank]];
      if (action.type() == kForward) {
        const auto [type, stage, microbatch] = action.tasks()[0];
        if (stage > 0 && done_at(stage - 1, microbatch) >= step) {
          delays[rank].push_back(next[rank]);
          continue;
        }
        done_at(stage, microbatch) = step;
      }
      if (++next[rank] == rows[rank].size()) --unfinished;
    }
  }
  return delays;
}

// From the end, so that every action moves only once, in place.
void insert_idle(ScheduleRow& row, const std::vector<size_t>& columns) {
  size_t from = row.size();
  row.resize(row.size() + columns.size());
  size_t to = row.size();
  for (const size_t column : reversed(columns)) {
    while (from > column) row[--to] = row[--from];
    row[--to] = Action();
  }
}

}  // namespace

int64_t microbatches_per_round(int64_t pp, int64_t microbatches) {
  const int64_t rounds = std::max<int64_t>(1, microbatches / pp);
  return microbatches % rounds == 0 ? microbatches / rounds : 0;
}

ScheduleRow gpipe_row(const RankShape& shape) {
  RowWriter row = writer(shape, 2);
  for (int32_t i = 0; i < shape.microbatches; ++i) row.next(kForward, shape.rank);
  for (int32_t i = 0; i < shape.microbatches; ++i) row.next(kBackward, shape.rank);
  return row.take_row();
}

ScheduleRow one_f_one_b_row(const RankShape& shape) {
  RowWriter row = writer(shape, 2);
  const int32_t warm_up = std::min(shape.microbatches, shape.pp - shape.rank);
  for (int32_t i = 0; i < warm_up; ++i) row.next(kForward, shape.rank);
  for (int32_t i = 0; i < shape.microbatches; ++i) {
    row.next(kBackward, shape.rank);
    if (warm_up + i < shape.microbatches) row.next(kForward, shape.rank);
  }
  return row.take_row();
}

ScheduleRow looped_bfs_row(const RankShape& shape) {
  RowWriter row = writer(shape, 2);
  row.idle(shape.rank);
  for (int32_t stage = shape.rank; stage < num_stages(shape); stage += shape.pp) {
    for (int32_t i = 0; i < shape.microbatches; ++i) row.next(kForward, stage);
  }
  row.idle(2 * (shape.pp - 1 - shape.rank));
  ScheduleRow actions = row.take_row();
  for (int32_t stage = num_stages(shape) - shape.pp + shape.rank; stage >= 0; stage -= shape.pp) {
    for (int32_t i = shape.microbatches - 1; i >= 0; --i) {
      actions.emplace_back(kBackward, stage, i);
    }
  }
  return actions;
}

ScheduleRow interleaved_row(const RankShape& shape) {
  const int32_t total = shape.microbatches * shape.stages_per_rank;
  const int32_t warm_up = warm_up_of(shape, 2);
  Turns forwards(shape, Turns::Direction::kUp);
  Turns backwards(shape, Turns::Direction::kDown);
  RowWriter row = writer(shape, 2);
  row.idle(shape.rank);
  for (int32_t j = 0; j < warm_up; ++j) row.next(kForward, forwards.next());
  const int32_t left = shape.pp - 1 - shape.rank;
  if (warm_up > 0) row.idle(num_stages(shape) + 2 * left - warm_up - shape.rank);
  for (int32_t j = 0; j < total; ++j) {
    if (warm_up + j < total) {
      row.next(kForward, forwards.next());
    } else {
      row.idle(1);
    }
    row.next(kBackward, backwards.next());
  }
  return row.take_row();
}

ScheduleRow interleaved_zero_bubble_row(const RankShape& shape) {
  const int32_t total = shape.microbatches * shape.stages_per_rank;
  const int32_t warm_up = warm_up_of(shape, 1);
  Turns forwards(shape, Turns::Direction::kUp);
  Turns inputs(shape, Turns::Direction::kDown);
  Turns weights(shape, Turns::Direction::kDown);
  RowWriter row = writer(shape, 3);
  row.idle(shape.rank);
  for (int32_t j = 0; j < warm_up; ++j) row.next(kForward, forwards.next());
  row.idle(shape.pp - 1 - shape.rank);
  for (int32_t j = 0; j < total; ++j) {
    if (warm_up + j < total) row.next(kForward, forwards.next());
    row.next(kInputGrad, inputs.next());
    if (j >= shape.rank) row.next(kWeightGrad, weights.next());
  }
  for (int32_t j = std::min(total, shape.rank); j > 0; --j) row.next(kWeightGrad, weights.next());
  return row.take_row();
}

void align_forwards(std::vector<ScheduleRow>& rows, const ScheduleShape& shape) {
  const Delays delays = delays_of(rows, shape);
  for (size_t rank = 0; rank < rows.size(); ++rank) insert_idle(rows[rank], delays[rank]);
}

}  // namespace tessera::schedule::detail
