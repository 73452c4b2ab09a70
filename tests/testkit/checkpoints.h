#pragma once

#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tessera/format/checkpoint/save_plan.h"
#include "tessera/format/checkpoint/shard_files.h"
#include "tessera/topology/part.h"
#include "tessera/topology/runs.h"

/// Checkpoints for tests: each element is its index in the full tensor.
namespace tessera::testkit {

inline std::vector<int32_t> indices_in(const std::vector<int64_t>& shape, const Box& box) {
  std::vector<int32_t> values;
  for_each_run(shape, std::span(&box, 1), [&](Span run) {
    for (int64_t i = run.begin; i < run.end; ++i) values.push_back(static_cast<int32_t>(i));
  });
  return values;
}

/// Writes a checkpoint of these ranks' tensors, which must be I32.
inline CheckpointIndex write_indices(const std::string& path,
                                     const std::vector<std::vector<HeldTensor>>& ranks,
                                     int64_t step = 1) {
  CheckpointDraft draft(path, 0);
  CheckpointIndex index{.step = step};
  const auto plan = plan_save(ranks);
  for (size_t rank = 0; rank < plan.size(); ++rank) {
    std::vector<int32_t> values;
    const auto bytes = [&](size_t i) {
      values = indices_in(plan[rank][i].shape, plan[rank][i].box);
      return std::as_bytes(std::span(values));
    };
    merge(index, write_shard(draft.path(), rank, plan[rank], bytes));
  }
  draft.publish(index);
  return index;
}

/// A tensor of I32 cut as FSDP cuts it, by runs.
inline std::vector<std::vector<HeldTensor>> cut_in_runs(const std::string& name,
                                                        const std::vector<int64_t>& shape,
                                                        int64_t ranks) {
  std::vector<std::vector<HeldTensor>> held;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Part part = cut_flat({Part(shape)}, ranks, rank).front();
    held.push_back({{name, DType::kI32, shape, part.boxes()}});
  }
  return held;
}

}  // namespace tessera::testkit
