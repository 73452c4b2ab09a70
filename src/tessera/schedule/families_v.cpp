// The rows of families with V placement: rank r holds stage `low` on the way forth and stage `high`
// on the way back.
#include <algorithm>
#include <deque>

#include "tessera/schedule/internal/families.h"
#include "tessera/schedule/internal/row_writer.h"

namespace tessera::schedule::detail {
namespace {

using enum ActionType;

template <class Body>
void repeat(int32_t times, const Body& body) {
  for (int32_t i = 0; i < times; ++i) body();
}

/// ZB-V, in the phases of its paper, for enough microbatches to fill the pipeline.
class ZbvWriter {
 public:
  explicit ZbvWriter(const RankShape& shape)
      : pp_(shape.pp),
        rank_(shape.rank),
        high_(2 * shape.pp - 1 - shape.rank),
        microbatches_(std::max(2 * shape.pp - 1, shape.microbatches)),
        row_(2 * shape.pp, 6 * microbatches_ + shape.pp) {}

  ScheduleRow write() {
    row_.idle(rank_);
    warm_up();
    while (forwards(high_) < forwards(low()) || forwards(low()) < microbatches_) steady();
    cool_down();
    return row_.take_row();
  }

 private:
  int32_t low() const { return rank_; }
  int32_t forwards(int32_t stage) { return row_.count(kForward, stage); }

  void all_of(int32_t stage) {
    row_.next(kForward, stage);
    backward(stage);
  }
  void backward(int32_t stage) {
    row_.next(kInputGrad, stage);
    row_.next(kWeightGrad, stage);
  }

  void warm_up() {
    repeat(2 * (pp_ - rank_) - 1, [this] { row_.next(kForward, low()); });
    repeat(rank_, [this] {
      row_.next(kForward, high_);
      row_.next(kForward, low());
    });
    repeat(pp_ - rank_, [this] { all_of(high_); });
  }

  void steady() {
    if (forwards(low()) < microbatches_) row_.next(kForward, low());
    backward(low());
    all_of(high_);
  }

  void cool_down() {
    repeat(rank_, [this] {
      row_.next(kInputGrad, low());
      row_.next(kInputGrad, high_);
    });
    repeat(pp_ - rank_, [this] { backward(low()); });
    for (const int32_t stage : {high_, low()}) {
      while (row_.count(kWeightGrad, stage) < row_.count(kInputGrad, stage)) {
        row_.next(kWeightGrad, stage);
      }
    }
  }

  int32_t pp_;
  int32_t rank_;
  int32_t high_;
  int32_t microbatches_;
  RowWriter row_;
};

/// DualPipeV: forwards of one direction overlap backwards of the other.
class DualPipeVWriter {
 public:
  explicit DualPipeVWriter(const RankShape& shape)
      : rank_(shape.rank),
        behind_(shape.pp - 1 - shape.rank),
        high_(2 * shape.pp - 1 - shape.rank),
        overlaps_(shape.microbatches - 2 * shape.pp + shape.rank + 1),
        row_(2 * shape.pp, 4 * shape.microbatches) {}

  ScheduleRow write() {
    fill();
    steady();
    drain();
    return row_.take_row();
  }

 private:
  int32_t low() const { return rank_; }

  void backward(ActionType type, int32_t stage) {
    const int32_t microbatch = row_.next(type, stage);
    if (type == kInputGrad) weights_due_.push_back({kWeightGrad, stage, microbatch});
  }
  // The oldest deferred weight gradient, if there is one.
  void weight() {
    if (weights_due_.empty()) return;
    row_.add(weights_due_.front());
    weights_due_.pop_front();
  }

  void fill() {
    repeat(2 * behind_, [this] { row_.next(kForward, low()); });
    repeat(rank_ + 1, [this] {
      row_.next(kForward, low());
      row_.next(kForward, high_);
    });
    repeat(behind_, [this] {
      backward(kInputGrad, high_);
      weight();
      row_.next(kForward, high_);
    });
  }

  void steady() {
    for (int32_t i = 0; i < overlaps_; ++i) {
      // The last rank's first backward directly follows its own forward: nothing overlaps yet.
      if (behind_ == 0 && i == 0) {
        row_.next(kForward, low());
        row_.next(kBackward, high_);
      } else {
        row_.next_overlap(low(), high_);
      }
      row_.next_overlap(high_, low());
    }
    repeat(behind_, [this] {
      row_.next(kBackward, high_);
      row_.next_overlap(high_, low());
    });
  }

  // From the middle on, defers weight gradients so that previous ranks get theirs sooner.
  void drain() {
    const int32_t middle = (rank_ + 1) / 2;
    const bool odd = rank_ % 2 == 1;
    ActionType type = kBackward;
    for (int32_t i = 0; i <= rank_; ++i) {
      if (i == middle && odd) type = kInputGrad;
      backward(type, high_);
      if (i == middle && !odd) type = kInputGrad;
      backward(type, low());
    }
    repeat(behind_, [this, type] {
      weight();
      backward(type, low());
    });
    repeat(rank_ + 1, [this] { weight(); });
  }

  int32_t rank_;
  int32_t behind_;  // Ranks after this one.
  int32_t high_;
  int32_t overlaps_;
  RowWriter row_;
  std::deque<Task> weights_due_;
};

}  // namespace

ScheduleRow zbv_row(const RankShape& shape) {
  ScheduleRow row = ZbvWriter(shape).write();
  // The writer assumes a full pipeline; missing microbatches become idle slots.
  for (Action& action : row) {
    if (!action.is_idle() && action.tasks()[0].microbatch >= shape.microbatches) action = Action();
  }
  return row;
}

ScheduleRow dualpipev_row(const RankShape& shape) {
  return DualPipeVWriter(shape).write();
}

}  // namespace tessera::schedule::detail
