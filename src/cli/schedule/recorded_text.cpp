#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/schedule/recorded.h"
#include "cli/schedule/view.h"
#include "cli/table.h"
#include "tessera/base/number_text.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostRanks = 64;  // That a table lists.

// Six digits are printed; the last three of a measured time are noise.
double rounded(double ms) {
  if (ms == 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(ms))) - 3);
  return std::round(ms / unit) * unit;
}

// "1.2", or "1.2 to 1.9" if stages differ.
std::string range_text(const std::vector<double>& times) {
  const auto [least, most] = std::ranges::minmax(times);
  const std::string low = concat(rounded(least));
  const std::string high = concat(rounded(most));
  return low == high ? low : concat(low, " to ", high);
}

bool splits_backward(const Schedule& schedule) {
  return std::ranges::any_of(schedule.rows(), [](const ScheduleRow& row) {
    return std::ranges::any_of(
        row, [](const Action& action) { return action.type() == ActionType::kInputGrad; });
  });
}

std::string against_simulation(const RecordedView& view) {
  const Simulation& real = view.step.simulation;
  const Simulation& simulated = view.simulated;
  Table table;
  table.add_column("ms");
  for (const char* title : {"measured", "simulated"}) table.add_column(title, Align::kRight);
  table.add_row({"makespan", concat(rounded(real.makespan)), concat(rounded(simulated.makespan))});
  table.add_row({"bubble", percent(real.bubble_fraction()), percent(simulated.bubble_fraction())});
  const size_t ranks = std::min<size_t>(real.ranks.size(), kMostRanks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    table.add_row({concat("rank ", rank, " busy"), concat(rounded(real.ranks[rank].busy)),
                   concat(rounded(simulated.ranks[rank].busy))});
  }
  return table.to_string();
}

std::string signed_percent(double share) {
  const std::string text = percent(std::abs(share));
  return concat(share < 0 ? "-" : "+", text);
}

std::string memory_text(double share) {
  return concat(std::round(100 * share) / 100, " x");
}

std::string others_table(const RecordedView& view) {
  Table table;
  table.add_column("schedule");
  for (const char* title : {"stages per rank", "makespan", "time", "memory"}) {
    table.add_column(title, Align::kRight);
  }
  const Schedule& present = view.step.schedule;
  table.add_row({present.name() + " (now)", concat(present.num_stages() / present.pp()),
                 concat(rounded(view.simulated.makespan)), "", "1 x"});
  for (const Alternative& other : view.others) {
    table.add_row({other.schedule.name(), concat(other.schedule.num_stages() / present.pp()),
                   concat(rounded(other.simulation.makespan)), signed_percent(other.time - 1),
                   memory_text(other.memory)});
  }
  return table.to_string();
}

std::string stages_text(const Schedule& schedule) {
  const int64_t stages = schedule.num_stages() / schedule.pp();
  return stages == 1 ? "1 stage per rank" : concat(stages, " stages per rank");
}

std::string advice(const RecordedView& view) {
  const std::string present = visible(view.step.schedule.name());
  if (view.best == nullptr) {
    return concat("No other schedule within this memory would be quicker than ", present, ".\n");
  }
  const Alternative& best = *view.best;
  return concat(best.schedule.name(), " with ", stages_text(best.schedule), " would take ",
                percent(1 - best.time), " less time than ", present, ",\nwith ",
                memory_text(best.memory), " its activations; --csv FILE writes its table.\n");
}

std::string stage_times(const RecordedView& view) {
  const Costs& costs = view.costs;
  Table table;
  table.add_column("ms of a stage");
  table.add_column("");
  table.add_row({"forward", range_text(costs.forward)});
  table.add_row({"input gradient", range_text(costs.input_grad)});
  table.add_row({"weight gradient", range_text(costs.weight_grad)});
  table.add_row({"a message", range_text(costs.message)});
  return table.to_string();
}

Json alternative_json(const Alternative& other) {
  return {{"kind", other.schedule.name()},
          {"stages_per_rank", other.schedule.num_stages() / other.schedule.pp()},
          {"makespan", other.simulation.makespan},
          {"time", other.time},
          {"memory", other.memory}};
}

Json costs_json(const Costs& costs) {
  return {{"forward", costs.forward},
          {"input_grad", costs.input_grad},
          {"weight_grad", costs.weight_grad},
          {"message", costs.message},
          {"overlap", costs.overlap}};
}

}  // namespace

std::string costs_text(const RecordedView& view) {
  const Costs& costs = view.costs;
  return concat("times of a stage in ms: forward ", range_text(costs.forward), ", input gradient ",
                range_text(costs.input_grad), ", weight gradient ", range_text(costs.weight_grad),
                "; a message ", range_text(costs.message));
}

void write_recorded_text(const RecordedView& view, std::ostream& out) {
  out << "step " << view.step.step << ", measured and simulated with its own times:\n\n"
      << against_simulation(view) << "\n"
      << stage_times(view);
  if (!splits_backward(view.step.schedule)) {
    out << "(its backwards are whole: half of each is taken as input gradient)\n";
  }
  out << "\nOther schedules with these times:\n\n" << others_table(view) << "\n" << advice(view);
}

void write_recorded_json(const RecordedView& view, std::ostream& out) {
  const Schedule& schedule = view.step.schedule;
  Json others = Json::array();
  for (const Alternative& other : view.others) others.push_back(alternative_json(other));
  out << "{\"step\":" << view.step.step << ",\"costs\":" << costs_json(view.costs).dump()
      << ",\n\"measured\":";
  write_schedule_json({schedule, verify(schedule), view.step.simulation, ""}, out);
  out << ",\n\"simulated\":";
  write_schedule_json({schedule, verify(schedule), view.simulated, ""}, out);
  out << ",\n\"alternatives\":" << others.dump() << "}\n";
}

}  // namespace tessera::cli
