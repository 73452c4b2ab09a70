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
/// Forms of the tensors that a stage receives, by receiving stage and microbatch.
using CrossingForms = std::map<Place, TensorForms>;

/// State of a pipeline that outlives a step.
struct PipelineCore {
  PipelineCore(std::vector<Stage> given, Schedule table, const Group& pp, PipelineOptions options);

  GroupRank rank() const { return group.rank(); }
  const Stage& stage(int64_t index) const;
  bool has(int64_t stage) const { return schedule.rank_of(stage) == rank(); }
  int64_t last_stage() const { return schedule.num_stages() - 1; }

  /// The forms for a step of this digest; empty if the senders must announce them first. All ranks
  /// decide the same.
  CrossingForms& crossing(uint64_t shapes, bool failed_before);

  std::vector<Stage> stages;
  Schedule schedule;
  PipelineOptions options;
  Group group;
  Group control;          // Own lane, so that agreements do not mix with messages.
  std::set<Place> split;  // Stages and microbatches with I and W in the schedule.
  at::Device device;      // Device of the activations.
  MessageQueue messages;
  BufferPool pool;
  std::map<uint64_t, CrossingForms> known = {};
  int64_t calls = 0;
  bool failed = false;  // Whether the last call failed.
};

}  // namespace tessera::pipeline::detail
