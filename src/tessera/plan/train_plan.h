#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/plan.h"

namespace tessera TSR_API {

/// The parallel degrees of a training run.
struct ParallelDims {
  int64_t pp = 1;            // Ranks per pipeline.
  int64_t dp_replicate = 1;  // Replicas of the model.
  int64_t dp_shard = 1;      // Ranks that hold the shards of one replica.
  int64_t cp = 1;            // Ranks that split a sequence.
  int64_t tp = 1;            // Ranks that shard each layer.
  int64_t ep = 1;            // Ranks that split the experts of a layer.
  int64_t etp = 1;           // Ranks that shard each expert.
  /// Whether the ranks of cp hold shards even if dp_shard is 1.
  bool shard_cp = false;

  /// The number of ranks. The expert degrees add none: the same ranks hold the experts.
  int64_t world() const;
  /// The ranks over which the parameters of a replica are sharded: dp_shard·cp, or 1 if they are
  /// not.
  int64_t shards() const;
  friend bool operator==(const ParallelDims&, const ParallelDims&) = default;
};

/// "pp 2 × dp_replicate 2"; "1 rank" if every degree is 1.
std::string to_string(const ParallelDims& dims);
/// Writes to_string(dims).
inline std::ostream& operator<<(std::ostream& out, const ParallelDims& dims) {
  return out << to_string(dims);
}

/// The trainer's flags for data parallelism, from which its two degrees follow.
struct DataParallelOptions {
  int64_t dp = 1;            // Ranks that read different data.
  std::string type = "ddp";  // See data_parallel_types().
  int64_t dp_replicate = 1;  // The replicas of hsdp, the optimizer instances of zero1.
};
/// The names that --dp-type accepts.
std::vector<std::string> data_parallel_types();
/// Sets dp_replicate, dp_shard and, if dims.cp is above 1, shard_cp. ConfigError if the options do
/// not fit together.
void set_data_parallel(ParallelDims& dims, const DataParallelOptions& options);

/// The layout and the groups of a training run.
///
/// The layout "world" has the axes pp, dp_replicate, dp_shard, cp and tp, the last one fastest. The
/// layout "experts" keeps pp and divides the other ranks into expert_replicate, expert_shard, ep
/// and etp. Experts have as many replicas as the rest of the model if ep·etp divides
/// dp_shard·cp·tp; otherwise they are not sharded further.
///
/// Each group has one purpose, even if another group has the same ranks:
///
///   tp, cp, pp, ep, etp                   the strategies themselves
///   dp_replicate, dp_shard                the axes of data parallelism
///   dp_shard_cp                           ranks that hold the shards of a replica; one rank if
///                                         ParallelDims::shards() is 1
///   expert_replicate, expert_shard        the same for experts
///   batch                                 ranks that divide the rows of a batch
///   loss                                  sums the loss and its number of tokens
///   grad, expert_grad                     sums the gradient of a parameter
///   norm                                  sums the squares of disjoint parts
///   embedding                             the first and the last rank of a pipeline: tied weights
///
/// With the sizes of hierarchical context parallelism (ContextParallelOptions), also:
///
///   cp_all_to_all                         sizes[0] consecutive ranks of a cp group
///   cp_ring                               sizes[1] of these, rank i of each
///
/// ConfigError if a degree is below 1, the product is not `world`, ep·etp does not divide dp·cp·tp,
/// or the product of the sizes is not cp.
Plan train_plan(int64_t world, const ParallelDims& dims, const std::vector<int64_t>& cp_sizes = {});

}  // namespace tessera
