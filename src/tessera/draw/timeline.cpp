#include "tessera/draw/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "tessera/base/number_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr std::array kComputeTypes{ActionType::kForward, ActionType::kBackward,
                                   ActionType::kInputGrad, ActionType::kWeightGrad};

std::string counted(int64_t count, std::string_view what) {
  return concat(with_thousands(count), " ", what, count == 1 ? "" : "s");
}

// Which block produces what others wait for: the output of a stage's forward, or its input
// gradient.
class Makers {
 public:
  Makers(std::span<const TimelineBlock> blocks, const ScheduleShape& shape)
      : shape_(shape),
        forwards_(static_cast<size_t>(shape.num_stages * shape.microbatches)),
        input_grads_(forwards_.size()) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (const Task& task : blocks[i].action.tasks()) note(task, i);
    }
  }

  // Adds the blocks, except its own, whose results the task needs.
  void add_needs(const Task& task, size_t own, std::vector<size_t>& needs) const {
    const auto add = [&](const std::optional<size_t>& maker) {
      const bool known = !maker || *maker == own || std::ranges::find(needs, *maker) != needs.end();
      if (!known) needs.push_back(*maker);
    };
    if (task.type == ActionType::kForward) {
      if (task.stage > 0) add(forwards_[index(task.stage - 1, task.microbatch)]);
    } else if (task.type == ActionType::kWeightGrad) {
      add(input_grads_[index(task.stage, task.microbatch)]);
    } else {
      add(forwards_[index(task.stage, task.microbatch)]);
      if (task.stage + 1 < shape_.num_stages) {
        add(input_grads_[index(task.stage + 1, task.microbatch)]);
      }
    }
  }

 private:
  size_t index(int64_t stage, int64_t microbatch) const {
    return static_cast<size_t>(stage * shape_.microbatches + microbatch);
  }

  void note(const Task& task, size_t block) {
    const size_t at = index(task.stage, task.microbatch);
    if (task.type == ActionType::kForward) forwards_[at] = block;
    if (gives_input_grad(task.type)) input_grads_[at] = block;
  }

  ScheduleShape shape_;
  std::vector<std::optional<size_t>> forwards_;
  std::vector<std::optional<size_t>> input_grads_;
};

// Distinguishable with any kind of colour vision; after Okabe and Ito.
Rgb base_color(ActionType type) {
  switch (type) {
    case ActionType::kForward:
      return {0, 105, 200};
    case ActionType::kBackward:
      return {213, 94, 0};
    case ActionType::kInputGrad:
      return {230, 159, 0};
    default:
      return {0, 158, 115};
  }
}

Rgb lighter(Rgb color, double share) {
  const auto mix = [&](int channel) {
    return static_cast<int>(std::lround(channel + (255 - channel) * share));
  };
  return {mix(color.red), mix(color.green), mix(color.blue)};
}

// Lengths of the blocks that have one, by the type and stage of their first task.
std::map<std::pair<ActionType, int32_t>, std::vector<double>> lengths_of(const Timeline& timeline) {
  std::map<std::pair<ActionType, int32_t>, std::vector<double>> lengths;
  for (const TimelineBlock& block : timeline.blocks()) {
    if (block.time.length() <= 0) continue;
    lengths[{block.action.type(), block.action.tasks()[0].stage}].push_back(block.time.length());
  }
  return lengths;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

Timeline::Timeline(const Schedule& schedule, const Simulation& simulation, std::string_view name)
    : name_(name.empty() ? schedule.name() : name),
      shape_(schedule.shape()),
      makespan_(simulation.makespan),
      bubble_(simulation.bubble_fraction()),
      chunks_(static_cast<size_t>(schedule.num_stages())) {
  for (int64_t rank = 0; rank < pp(); ++rank) add_row(schedule, simulation, GroupRank{rank});
}

void Timeline::add_row(const Schedule& schedule, const Simulation& simulation, GroupRank rank) {
  const std::vector<int64_t> stages = schedule.stages_of(rank);
  for (size_t i = 0; i < stages.size(); ++i) {
    chunks_[static_cast<size_t>(stages[i])] = static_cast<int64_t>(i);
  }
  num_chunks_ = std::max(num_chunks_, static_cast<int64_t>(stages.size()));
  const auto at = static_cast<size_t>(rank.value);
  const size_t begin = blocks_.size();
  for (size_t i = 0; i < schedule.row(rank).size(); ++i) {
    const Action& action = schedule.row(rank)[i];
    if (action.computes()) blocks_.push_back({rank, action, simulation.spans[at][i]});
  }
  rows_.push_back(
      {simulation.ranks[at], live_activations(schedule, simulation, rank), begin, blocks_.size()});
}

std::string Timeline::shape_text() const {
  return concat(
      counted(pp(), "rank"), ", ", counted(shape_.num_stages, "stage"), ", ",
      shape_.microbatches == 1 ? "1 microbatch" : concat(shape_.microbatches, " microbatches"));
}

std::string Timeline::result_text() const {
  return concat("makespan ", makespan_, ", bubble ", percent(bubble_), ", peak ",
                counted(peak_activations(), "activation"));
}

int64_t Timeline::peak_activations() const {
  int64_t peak = 0;
  for (const Row& row : rows_) peak = std::max(peak, row.times.peak_activations);
  return peak;
}

std::span<const TimelineBlock> Timeline::blocks_of(GroupRank rank) const& {
  return std::span(blocks_).subspan(row(rank).begin, row(rank).end - row(rank).begin);
}

std::vector<std::vector<size_t>> Timeline::needs() const {
  const Makers makers(blocks_, shape_);
  std::vector<std::vector<size_t>> needs(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    for (const Task& task : blocks_[i].action.tasks()) makers.add_needs(task, i, needs[i]);
  }
  return needs;
}

Rgb Timeline::color_of(const Task& task) const {
  return action_color(task.type, chunk_of(task), num_chunks_);
}

TimeAxis common_axis(std::span<const Timeline> timelines) {
  TimeAxis axis;
  double shortest = std::numeric_limits<double>::infinity();
  for (const Timeline& timeline : timelines) {
    axis.end = std::max(axis.end, timeline.makespan());
    for (auto& [kind, lengths] : lengths_of(timeline)) {
      shortest = std::min(shortest, median(lengths));
    }
  }
  axis.shortest = std::isinf(shortest) ? 0 : shortest;
  return axis;
}

Rgb action_color(ActionType type, int64_t chunk, int64_t num_chunks) {
  constexpr double kFirst = 0.3;  // Light enough for dark text.
  constexpr double kLast = 0.6;
  const double share =
      num_chunks > 1 ? static_cast<double>(chunk) / static_cast<double>(num_chunks - 1) : 0;
  return lighter(base_color(type), kFirst + (kLast - kFirst) * share);
}

std::string_view action_words(ActionType type) {
  switch (type) {
    case ActionType::kForward:
      return "forward";
    case ActionType::kBackward:
      return "backward";
    case ActionType::kInputGrad:
      return "input gradient";
    default:
      return "weight gradient";
  }
}

std::vector<ActionType> types_in(std::span<const Timeline> timelines) {
  std::vector<ActionType> types;
  for (const ActionType type : kComputeTypes) {
    const auto has = [&](const TimelineBlock& block) {
      return std::ranges::find(block.action.tasks(), type, &Task::type) !=
             block.action.tasks().end();
    };
    const bool occurs = std::ranges::any_of(timelines, [&](const Timeline& timeline) {
      return std::ranges::any_of(timeline.blocks(), has);
    });
    if (occurs) types.push_back(type);
  }
  return types;
}

bool has_overlaps(std::span<const Timeline> timelines) {
  return std::ranges::any_of(timelines, [](const Timeline& timeline) {
    return std::ranges::any_of(timeline.blocks(), [](const TimelineBlock& block) {
      return block.action.type() == ActionType::kOverlap;
    });
  });
}

}  // namespace tessera
