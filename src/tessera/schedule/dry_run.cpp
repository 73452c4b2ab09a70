#include "tessera/schedule/internal/dry_run.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/schedule/internal/flow.h"

namespace tessera::schedule::detail {

DryRun::DryRun(const Schedule& schedule)
    : schedule_(schedule),
      places_(schedule.rows().size()),
      work_(schedule.rows().size()),
      inputs_(schedule.shape(), 0),
      grads_(schedule.shape(), 0) {}

void DryRun::run() {
  while (const auto rank = work_.next()) advance(*rank);
  const std::vector<size_t> stuck = cycle();
  if (stuck.empty()) return;
  std::vector<std::string> waits;
  waits.reserve(stuck.size());
  for (const size_t rank : stuck) waits.push_back(describe(rank));
  throw ConfigError(
      concat("the table would deadlock: ", join(waits, "; "), "; reorder one of these rows"));
}

uint8_t& DryRun::arrived(const Task& task) {
  return (goes_forward(task.type) ? inputs_ : grads_)(task.stage, task.microbatch);
}

// In a table with communication, the receive before it has already waited.
bool DryRun::is_ready(const Task& task) {
  return schedule_.communicates() || producer_stage(schedule_, task) == kNoStage ||
         arrived(task) != 0;
}

void DryRun::advance(size_t rank) {
  while (!is_finished(rank) && finish_head(rank)) {
    places_[rank] = {.column = places_[rank].column + 1};
  }
}

bool DryRun::finish_head(size_t rank) {
  const Action& action = head(rank);
  if (action.computes()) return finish_compute(action);
  bool all_over = true;
  for (size_t i = 0; i < action.tasks().size(); ++i) {
    const Task& task = action.tasks()[i];
    if (places_[rank].over[i] || (!is_send(task.type) && !is_receive(task.type))) continue;
    const bool over = schedule_.sends() == SendMode::kPosted ? finish_posted(task) : meet(rank, i);
    places_[rank].over[i] = over;
    all_over = all_over && over;
  }
  return all_over;
}

bool DryRun::finish_compute(const Action& action) {
  const auto ready = [this](const Task& task) { return is_ready(task); };
  if (!std::ranges::all_of(action.tasks(), ready)) return false;
  if (schedule_.communicates()) return true;
  for (const Task& task : action.tasks()) {
    const int32_t consumer = consumer_stage(schedule_, task);
    if (consumer != kNoStage) deliver({task.type, consumer, task.microbatch});
  }
  return true;
}

bool DryRun::finish_posted(const Task& message) {
  if (is_receive(message.type)) return arrived(message) != 0;
  deliver(counterpart(message));
  return true;
}

void DryRun::deliver(const Task& receiver) {
  arrived(receiver) = 1;
  work_.wake(rank_of(receiver.stage));
}

// A send and its receive complete when both ranks have reached them.
bool DryRun::meet(size_t rank, size_t index) {
  const Task wanted = counterpart(head(rank).tasks()[index]);
  const size_t peer = rank_of(wanted.stage);
  if (is_finished(peer)) return false;
  const auto tasks = head(peer).tasks();
  const auto found = std::ranges::find(tasks, wanted);
  if (found == tasks.end()) return false;
  places_[peer].over[static_cast<size_t>(found - tasks.begin())] = true;
  work_.wake(peer);
  return true;
}

DryRun::Wait DryRun::wait_of(size_t rank) {
  const auto tasks = head(rank).tasks();
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (head(rank).computes() ? is_ready(tasks[i]) : places_[rank].over[i]) continue;
    if (head(rank).computes()) return producer_of(tasks[i]);
    const Task other = counterpart(tasks[i]);
    return {other, rank_of(other.stage)};
  }
  TSR_ASSERT(false, "rank ", rank, " waits for nothing");
  return {};
}

DryRun::Wait DryRun::producer_of(const Task& task) const {
  const int32_t stage = producer_stage(schedule_, task);
  const size_t rank = rank_of(stage);
  for (const Action& action : schedule_.rows()[rank]) {
    for (const Task& other : action.tasks()) {
      const bool gives = goes_forward(task.type) ? other.type == ActionType::kForward
                                                 : gives_input_grad(other.type);
      if (gives && other.stage == stage && other.microbatch == task.microbatch) {
        return {other, rank};
      }
    }
  }
  TSR_ASSERT(false, "nobody makes what ", to_string(task), " needs");
  return {};
}

size_t DryRun::column_of(const Task& task, size_t rank) const {
  const auto has = [&](const Action& action) {
    return std::ranges::find(action.tasks(), task) != action.tasks().end();
  };
  const ScheduleRow& row = schedule_.rows()[rank];
  return static_cast<size_t>(std::ranges::find_if(row, has) - row.begin());
}

// A stuck rank waits for another stuck rank: following them leads into the cycle.
std::vector<size_t> DryRun::cycle() {
  size_t rank = 0;
  while (rank < places_.size() && is_finished(rank)) ++rank;
  if (rank == places_.size()) return {};
  std::vector<size_t> path;
  while (std::ranges::find(path, rank) == path.end()) {
    path.push_back(rank);
    rank = wait_of(rank).rank;
  }
  path.erase(path.begin(), std::ranges::find(path, rank));
  return path;
}

std::string DryRun::describe(size_t rank) {
  const Wait wait = wait_of(rank);
  return concat("rank ", rank, " waits at ", head(rank), " (column ", places_[rank].column,
                ") for ", to_string(wait.task), " of rank ", wait.rank, " (column ",
                column_of(wait.task, wait.rank), ")");
}

}  // namespace tessera::schedule::detail
