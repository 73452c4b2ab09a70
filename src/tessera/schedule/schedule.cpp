#include "tessera/schedule/schedule.h"

#include <algorithm>
#include <limits>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr int32_t kNobody = -1;

int64_t count_tasks(std::span<const ScheduleRow> rows) {
  int64_t count = 0;
  for (const ScheduleRow& row : rows) {
    for (const Action& action : row) count += static_cast<int64_t>(action.tasks().size());
  }
  return count;
}

template <class Visit>
void for_each_task(std::span<const ScheduleRow> rows, const Visit& visit) {
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t column = 0; column < rows[row].size(); ++column) {
      for (const Task& task : rows[row][column].tasks()) visit(task, row, column);
    }
  }
}

}  // namespace

Schedule::Schedule(std::string name, ScheduleShape shape, std::vector<ScheduleRow> rows,
                   SendMode sends)
    : name_(std::move(name)), shape_(shape), rows_(std::move(rows)), sends_(sends) {
  check_shape();
  stage_to_rank_.assign(static_cast<size_t>(shape_.num_stages), kNobody);
  for_each_task(rows_, [this](const Task& task, size_t row, size_t column) {
    check_range(task, row, column);
    if (is_compute(task.type)) place(task, row, column);
    compute_only_ = compute_only_ && is_compute(task.type);
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
    TSR_CHECK(value >= 1 && value <= kMost, what, " is ", value, "; it starts at 1");
  }
  TSR_CHECK(rows_.size() == static_cast<size_t>(shape_.pp), "the table has ", rows_.size(),
            " rows for ", shape_.pp, " ranks; every rank has one row");
  // Also keeps a short table with huge numbers in it from taking all memory.
  const int64_t needed = 2 * shape_.num_stages * shape_.microbatches;
  const int64_t tasks = count_tasks(rows_);
  TSR_CHECK(tasks >= needed, "the table holds ", tasks, " actions, too few for ", shape_.num_stages,
            " stages × ", shape_.microbatches,
            " microbatches: each needs a forward and a backward");
}

void Schedule::check_range(const Task& task, size_t row, size_t column) const {
  TSR_CHECK(task.stage < shape_.num_stages, "row ", row, ", column ", column, ": ",
            tessera::to_string(task), " is of stage ", task.stage, ", but there are ",
            shape_.num_stages, " stages, counted from 0");
  TSR_CHECK(task.microbatch < shape_.microbatches, "row ", row, ", column ", column, ": ",
            tessera::to_string(task), " is of microbatch ", task.microbatch, ", but there are ",
            shape_.microbatches, ", counted from 0");
}

void Schedule::place(const Task& task, size_t row, size_t column) {
  int32_t& rank = stage_to_rank_[static_cast<size_t>(task.stage)];
  if (rank == kNobody) rank = static_cast<int32_t>(row);
  TSR_CHECK(rank == static_cast<int32_t>(row), "row ", row, ", column ", column, ": ",
            tessera::to_string(task), " computes stage ", task.stage, ", which rank ", rank,
            " computes too; a stage lies on one rank");
}

void Schedule::check_everyone_computes() const {
  const auto homeless = std::ranges::find(stage_to_rank_, kNobody);
  TSR_CHECK(homeless == stage_to_rank_.end(), "no rank computes stage ",
            homeless - stage_to_rank_.begin(), " of ", shape_.num_stages);
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
