#include "cli/json_text.h"
#include "cli/schedule/view.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

Json actions_of(const ScheduleView& view, size_t rank) {
  Json actions = Json::array();
  const ScheduleRow& row = view.schedule.rows()[rank];
  const std::vector<TimeSpan>& spans = view.simulation.spans[rank];
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i].is_idle()) continue;
    actions.push_back(
        {{"action", to_string(row[i])}, {"start", spans[i].start}, {"end", spans[i].end}});
  }
  return actions;
}

Json rank_json(const ScheduleView& view, size_t rank) {
  const RankTimes& times = view.simulation.ranks[rank];
  return {{"busy", times.busy},
          {"bubble", times.bubble},
          {"gap", times.gap},
          {"peak_activations", times.peak_activations},
          {"actions", actions_of(view, rank)}};
}

}  // namespace

// A schedule may have millions of actions: writes each rank before it visits the next.
void write_schedule_json(const ScheduleView& view, std::ostream& out) {
  const Json head{{"kind", view.schedule.name()},
                  {"pp", view.schedule.pp()},
                  {"stages_per_rank", view.stages_per_rank()},
                  {"microbatches", view.schedule.microbatches()},
                  {"makespan", view.simulation.makespan}};
  std::string text = json_text(head);
  text.pop_back();
  out << text << ",\"ranks\":[";
  for (size_t rank = 0; rank < view.schedule.rows().size(); ++rank) {
    out << (rank == 0 ? "\n" : ",\n") << json_text(rank_json(view, rank));
  }
  out << "]}";
}

void write_schedule_json(std::span<const ScheduleView> views, bool compare, std::ostream& out) {
  if (compare) out << "[";
  const char* between = "";
  for (const ScheduleView& view : views) {
    out << between;
    write_schedule_json(view, out);
    between = ",\n";
  }
  out << (compare ? "]\n" : "\n");
}

}  // namespace tessera::cli
