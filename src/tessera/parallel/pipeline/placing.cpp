#include "tessera/parallel/pipeline/internal/placing.h"

#include <algorithm>
#include <map>

#include "tessera/base/check.h"
#include "tessera/comm/objects.h"
#include "tessera/schedule/lower.h"
#include "tessera/schedule/verify.h"

namespace tessera::pipeline::detail {
namespace {

/// A rank's schedule and stages, as JSON.
using Placing = std::map<std::string, std::vector<int64_t>>;

std::vector<int64_t> digest_of(const Schedule& schedule) {
  const auto hash = std::hash<std::string>()(schedule.to_string());
  return {static_cast<int64_t>(hash), schedule.pp(), schedule.num_stages(),
          schedule.microbatches()};
}

std::vector<int64_t> indices_of(std::span<const Stage> stages) {
  std::vector<int64_t> indices;
  for (const Stage& stage : stages) indices.push_back(stage.index);
  return indices;
}

void check_same_table(const std::vector<Placing>& ranks, const Group& group) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    TSR_CHECK(ranks[rank].at("table") == ranks.front().at("table"), "ranks 0 and ", rank,
              " of group ", group.name(), " have different schedules; pass all ranks the same one");
  }
}

// Every stage exists once, on its rank of the schedule.
void check_stage(int64_t stage, GroupRank wanted, const std::vector<Placing>& ranks) {
  std::vector<int64_t> found;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& stages = ranks[rank].at("stages");
    found.insert(found.end(), static_cast<size_t>(std::ranges::count(stages, stage)),
                 static_cast<int64_t>(rank));
  }
  TSR_CHECK(!found.empty(), "stage ", stage, " is missing; the schedule has it on rank ", wanted);
  TSR_CHECK(found.size() == 1, "stage ", stage, " exists ", found.size(), " times (on rank ",
            join(found, " and "), "); the schedule has it once, on rank ", wanted);
  TSR_CHECK(found.front() == wanted.value, "stage ", stage, " is on rank ", found.front(),
            "; the schedule has it on rank ", wanted);
}

void check_known(const std::vector<Placing>& ranks, int64_t num_stages) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const int64_t stage : ranks[rank].at("stages")) {
      TSR_CHECK(0 <= stage && stage < num_stages, "rank ", rank, " has stage ", stage,
                ", but the schedule has stages 0 to ", num_stages - 1);
    }
  }
}

bool reduces(const Schedule& schedule) {
  return std::ranges::any_of(schedule.rows(), [](const ScheduleRow& row) {
    return std::ranges::find(row, ActionType::kReduceGrad, &Action::type) != row.end();
  });
}

// Why a message would meet another one, or wait for a later one of its rank; "" if none does.
std::string trouble_over_nccl(const Schedule& table) {
  const bool has_batches = std::ranges::any_of(table.rows(), [](const ScheduleRow& row) {
    return std::ranges::find(row, ActionType::kBatch, &Action::type) != row.end();
  });
  if (has_batches) return "it has batches of sends and receives";
  try {  // If each send waits for its receive, two ranks have their messages in the same order.
    verify({table.name(), table.shape(), {table.rows().begin(), table.rows().end()}});
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

Schedule executable(const Schedule& schedule) {
  const Schedule table = schedule.is_compute_only() ? lower(schedule) : schedule.without_idle();
  const Verification proof = verify(table);
  TSR_CHECK(proof.communicates || proof.num_messages == 0, "schedule ", schedule.name(),
            " has no sends and receives, but is not compute-only either; pass the compute-only "
            "schedule");
  return table;
}

void check_for_nccl(const Schedule& table) {
  const std::string trouble = trouble_over_nccl(table);
  TSR_CHECK(trouble.empty(), "schedule ", table.name(),
            " cannot run over NCCL, where messages have ",
            "no tags and those of a rank follow one another: ", trouble,
            "; pass the compute-only schedule, which is lowered to such an order");
}

void check_placing(std::span<const Stage> stages, const Schedule& schedule, const Group& group) {
  const Placing mine{{"table", digest_of(schedule)}, {"stages", indices_of(stages)}};
  const std::vector<Placing> ranks = all_gather_object(mine, group);
  check_same_table(ranks, group);
  TSR_CHECK(schedule.pp() == group.size(), "the schedule is for ", schedule.pp(),
            " ranks, but group ", group.name(), " has ", group.size(),
            "; generate it with pp = ", group.size());
  check_known(ranks, schedule.num_stages());
  for (int64_t stage = 0; stage < schedule.num_stages(); ++stage) {
    check_stage(stage, schedule.rank_of(stage), ranks);
  }
}

void check_stages(std::span<const Stage> stages, const Schedule& schedule) {
  for (const Stage& stage : stages) {
    TSR_CHECK(stage.forward, "stage ", stage.index, " has no forward function; set Stage::forward");
    TSR_CHECK(!stage.hooks.reduce_grad || reduces(schedule), "stage ", stage.index,
              " has a reduce_grad hook, but schedule ", schedule.name(),
              " has no REDUCE_GRAD; pass the compute-only schedule, which is lowered with it");
  }
}

}  // namespace tessera::pipeline::detail
