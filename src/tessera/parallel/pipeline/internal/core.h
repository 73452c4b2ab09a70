#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tessera/parallel/pipeline/internal/message_queue.h"
#include "tessera/parallel/pipeline/pipeline.h"

namespace tessera::pipeline::detail {

/// Stage and microbatch.
using Place = std::pair<int32_t, int32_t>;
inline Place place_of(const Task& task) {
  return {task.stage, task.microbatch};
}
/// What crosses into a stage, by the receiving stage.
using CrossingForms = std::map<Place, TensorForms>;

/// What a pipeline keeps between steps.
struct PipelineCore {
  PipelineCore(std::vector<Stage> given, Schedule table, const Group& pp, PipelineOptions options);

  GroupRank rank() const { return group.rank(); }
  const Stage& stage(int64_t index) const;
  bool has(int64_t stage) const { return schedule.rank_of(stage) == rank(); }
  int64_t last_stage() const { return schedule.num_stages() - 1; }

  /// What crosses in a step of this digest; empty where that must be announced first. The same
  /// decision on all ranks.
  CrossingForms& crossing(uint64_t shapes, bool failed_before);

  std::vector<Stage> stages;
  Schedule schedule;
  PipelineOptions options;
  Group group;
  Group control;          // What is agreed on must not meet the messages.
  std::set<Place> split;  // What has I and W in the table.
  at::Device device;      // Of activations.
  MessageQueue messages;
  BufferPool pool;
  std::map<uint64_t, CrossingForms> known = {};
  int64_t calls = 0;
  bool failed = false;  // The last call.
};

}  // namespace tessera::pipeline::detail
