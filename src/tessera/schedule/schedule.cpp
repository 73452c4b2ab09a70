#include "tessera/schedule/schedule.h"

#include <algorithm>
#include <limits>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr int32_t kNobody = -1;

int64_t count_slots(std::span<const ScheduleRow> rows) {
  size_t count = 0;
  for (const ScheduleRow& row : rows) count += row.size();
  return static_cast<int64_t>(count);
}

template <class Visit>
void for_each_task(std::span<const ScheduleRow> rows, const Visit& visit) {
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t column = 0; column < rows[row].size(); ++column) {
      for (const Task& task : rows[row][column].tasks()) visit(task, row, column);
    }
  }
}

// "row 0, column 1: 0F9: ", the likely cause of a wrong shape: the first task with the largest
// number in the shape; "" if no task has it.
std::string cause_of(const ScheduleShape& shape, std::span<const ScheduleRow> rows) {
  const bool by_stage = shape.num_stages > shape.microbatches;
  const int64_t largest = (by_stage ? shape.num_stages : shape.microbatches) - 1;
  std::string cause;
  for_each_task(rows, [&](const Task& task, size_t row, size_t column) {
    if (!cause.empty() || (by_stage ? task.stage : task.microbatch) != largest) return;
    cause = concat("row ", row, ", column ", column, ": ", to_string(task), ": ");
  });
  return cause;
}

}  // namespace

Schedule::Schedule(std::string name, ScheduleShape shape, std::vector<ScheduleRow> rows,
                   SendMode sends)
    : name_(std::move(name)), shape_(shape), rows_(std::move(rows)), sends_(sends) {
  check_shape();
  stage_to_rank_.assign(static_cast<size_t>(shape_.num_stages), kNobody);
  for_each_task(rows_, [this](const Task& task, size_t row, size_t column) {
    const bool inside = task.stage < shape_.num_stages && task.microbatch < shape_.microbatches;
    if (!inside) refuse_outside(task, row, column);
    if (is_compute(task.type)) {
      place(task, row, column);
    } else {
      compute_only_ = false;
      communicates_ = communicates_ || is_send(task.type) || is_receive(task.type);
    }
  });
  check_everyone_computes();
  if (compute_only_) return;
  for_each_task(rows_, [this](const Task& task, size_t row, size_t column) {
    TSR_CHECK(rank_of(task.stage).value == static_cast<int64_t>(row), "row ", row, ", column ",
              column, ": ", tessera::to_string(task), " concerns stage ", task.stage,
              ", which rank ", rank_of(task.stage), " computes; move it to that row");
  });
}

void Schedule::check_shape() const {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (const auto& [value, what] : {std::pair{shape_.pp, "pp"},
                                    {shape_.num_stages, "num_stages"},
                                    {shape_.microbatches, "microbatches"}}) {
    TSR_CHECK(value >= 1 && value <= kMost, cause_of(shape_, rows_), what, " is ", value,
              ", but must be from 1 to ", kMost);
  }
  TSR_CHECK(rows_.size() == static_cast<size_t>(shape_.pp), "the table has ", rows_.size(),
            " rows for ", shape_.pp, " ranks; every rank needs one row");
  // Even if each slot were an overlap. Keeps a short table with huge numbers from using all memory.
  const int64_t slots = count_slots(rows_);
  TSR_CHECK(slots >= shape_.num_stages * shape_.microbatches, cause_of(shape_, rows_),
            "the table has ", slots, " slots, too few for a forward and a backward of ",
            shape_.num_stages, " stages × ", shape_.microbatches, " microbatches");
}

void Schedule::refuse_outside(const Task& task, size_t row, size_t column) const {
  const bool stage = task.stage >= shape_.num_stages;
  throw ConfigError(concat("row ", row, ", column ", column, ": ", tessera::to_string(task),
                           stage ? " is of stage " : " is of microbatch ",
                           stage ? task.stage : task.microbatch, ", but there are ",
                           stage ? shape_.num_stages : shape_.microbatches, ", counted from 0"));
}

inline void Schedule::place(const Task& task, size_t row, size_t column) {
  int32_t& rank = stage_to_rank_[static_cast<size_t>(task.stage)];
  if (rank == static_cast<int32_t>(row)) return;
  TSR_CHECK(rank == kNobody, "row ", row, ", column ", column, ": ", tessera::to_string(task),
            " computes stage ", task.stage, ", which rank ", rank,
            " computes, too; a stage must lie on one rank");
  rank = static_cast<int32_t>(row);
}

void Schedule::check_everyone_computes() const {
  const auto unplaced = std::ranges::find(stage_to_rank_, kNobody);
  TSR_CHECK(unplaced == stage_to_rank_.end(), "no rank computes stage ",
            unplaced - stage_to_rank_.begin(), " of ", shape_.num_stages);
  std::vector<bool> has_stage(rows_.size());
  for (const int32_t rank : stage_to_rank_) has_stage[static_cast<size_t>(rank)] = true;
  const auto idle = std::ranges::find(has_stage, false);
  TSR_CHECK(idle == has_stage.end(), "row ", idle - has_stage.begin(),
            " computes no stage; every rank needs one");
}

std::vector<int64_t> Schedule::stages_of(GroupRank rank) const {
  std::vector<int64_t> stages;
  for (int64_t stage = 0; stage < num_stages(); ++stage) {
    if (rank_of(stage) == rank) stages.push_back(stage);
  }
  return stages;
}

Schedule Schedule::without_idle() const {
  std::vector<ScheduleRow> rows = rows_;
  for (ScheduleRow& row : rows) std::erase_if(row, [](const Action& a) { return a.is_idle(); });
  return {name_, shape_, std::move(rows), sends_};
}

std::string Schedule::to_string() const {
  std::string text;
  for (const ScheduleRow& row : rows_) {
    std::string_view between;
    for (const Action& action : row) {
      text += between;
      text += action.is_idle() ? "." : tessera::to_string(action);
      between = " ";
    }
    text += '\n';
  }
  return text;
}

ScheduleShape shape_of(std::span<const ScheduleRow> rows) {
  ScheduleShape shape{.pp = static_cast<int64_t>(rows.size())};
  for_each_task(rows, [&](const Task& task, size_t, size_t) {
    shape.num_stages = std::max<int64_t>(shape.num_stages, int64_t{task.stage} + 1);
    shape.microbatches = std::max<int64_t>(shape.microbatches, int64_t{task.microbatch} + 1);
  });
  return shape;
}

}  // namespace tessera
