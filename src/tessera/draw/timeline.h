#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera TSR_API {

/// An action that a rank computes, and when.
struct TimelineBlock {
  GroupRank rank;  // In the pipeline.
  Action action;   // F, B, I, W or an overlap.
  TimeSpan time;   // In the simulation's unit.
};

/// A simulated schedule, ready to be drawn: the data of every picture of it.
class Timeline {
 public:
  /// The simulation must be that of the schedule. `name` defaults to the name of the schedule.
  Timeline(const Schedule& schedule, const Simulation& simulation, std::string_view name = "");

  /// "Interleaved1F1B".
  const std::string& name() const& { return name_; }
  std::string name() && { return std::move(name_); }
  /// "4 ranks, 8 stages, 16 microbatches".
  std::string shape_text() const;
  /// "makespan 33, bubble 27.3 %, peak 4 activations".
  std::string result_text() const;

  /// Ranks per pipeline.
  int64_t pp() const { return shape_.pp; }
  /// When the last rank ends, in the simulation's unit.
  double makespan() const { return makespan_; }
  /// The idle share over all ranks.
  double bubble() const { return bubble_; }
  /// The most on any rank, in stages × microbatches.
  int64_t peak_activations() const;

  /// Rank by rank, each in order of time.
  std::span<const TimelineBlock> blocks() const& { return blocks_; }
  std::vector<TimelineBlock> blocks() && { return std::move(blocks_); }
  /// Those of one rank, in order of time.
  std::span<const TimelineBlock> blocks_of(GroupRank rank) const&;
  std::span<const TimelineBlock> blocks_of(GroupRank rank) && = delete;  // Name the timeline first.
  /// Busy and idle time of one rank.
  const RankTimes& times_of(GroupRank rank) const& { return row(rank).times; }
  RankTimes times_of(GroupRank rank) && { return row(rank).times; }
  /// The activations of one rank over time, one entry per change.
  std::span<const LiveActivations> live_of(GroupRank rank) const& { return row(rank).live; }
  std::vector<LiveActivations> live_of(GroupRank rank) && { return row(rank).live; }

  /// For each of blocks(), in the same order: the blocks whose results it needs.
  std::vector<std::vector<size_t>> needs() const;

  /// The index of the task's stage among the stages of its rank, from 0; it determines the shade of
  /// its colour.
  int64_t chunk_of(const Task& task) const { return chunks_[static_cast<size_t>(task.stage)]; }
  /// The most stages on any rank.
  int64_t num_chunks() const { return num_chunks_; }
  /// By type and stage; see action_color().
  Rgb color_of(const Task& task) const;

 private:
  struct Row {
    RankTimes times;
    std::vector<LiveActivations> live;
    size_t begin = 0;  // Range of the rank's blocks.
    size_t end = 0;
  };
  const Row& row(GroupRank rank) const { return rows_[static_cast<size_t>(rank.value)]; }
  void add_row(const Schedule& schedule, const Simulation& simulation, GroupRank rank);

  std::string name_;
  ScheduleShape shape_;
  double makespan_;
  double bubble_;
  std::vector<TimelineBlock> blocks_;
  std::vector<Row> rows_;
  std::vector<int64_t> chunks_;  // By stage.
  int64_t num_chunks_ = 1;
};

/// What several timelines on one axis share.
struct TimeAxis {
  double end = 0;  // Of the longest timeline.
  /// The usual length of the shortest kind of block; 0 if no block has a length. In a measured step
  /// a single block may be much shorter.
  double shortest = 0;
};
/// One axis on which all these timelines can be compared.
TimeAxis common_axis(std::span<const Timeline> timelines);

/// The colour of F, B, I or W; later stages of a rank are lighter. Dark text is readable on all of
/// them.
Rgb action_color(ActionType type, int64_t chunk, int64_t num_chunks);
/// "forward", "backward", "input gradient", "weight gradient".
std::string_view action_words(ActionType type);
/// Which of F, B, I and W occur, in this order.
std::vector<ActionType> types_in(std::span<const Timeline> timelines);
/// Whether any of them has a forward and a backward that run as one.
bool has_overlaps(std::span<const Timeline> timelines);

}  // namespace tessera
