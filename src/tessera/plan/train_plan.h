#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/plan.h"

namespace tessera TSR_API {

/// How many ranks each kind of parallelism of a training run has.
struct ParallelDims {
  int64_t pp = 1;            // Ranks of a pipeline.
  int64_t dp_replicate = 1;  // Copies of the model.
  int64_t dp_shard = 1;      // Ranks that hold the shards of a copy.
  int64_t cp = 1;            // Ranks that share a sequence.
  int64_t tp = 1;            // Ranks that share each layer.
  int64_t ep = 1;            // Ranks that share the experts of a layer,
  int64_t etp = 1;           // and those that share each expert.

  /// The number of ranks. The expert degrees add none: the same ranks hold the experts.
  int64_t world() const;
  friend bool operator==(const ParallelDims&, const ParallelDims&) = default;
};

/// "pp 2 × dp_replicate 2"; "1 rank" if every degree is 1.
std::string to_string(const ParallelDims& dims);
inline std::ostream& operator<<(std::ostream& out, const ParallelDims& dims) {
  return out << to_string(dims);
}

/// How the trainer's words for data parallelism set its two degrees.
struct DataParallelWords {
  int64_t dp = 1;
  std::string type = "ddp";  // See data_parallel_types().
  int64_t dp_replicate = 1;   // The copies of hsdp, the optimizer instances of zero1.
};
std::vector<std::string> data_parallel_types();
/// Sets dp_replicate and dp_shard. ConfigError if the words do not fit together.
void set_data_parallel(ParallelDims& dims, const DataParallelWords& words);

/// The layout and the groups of a training run.
///
/// The layout "world" has the axes pp, dp_replicate, dp_shard, cp and tp, the last one fastest. The
/// layout "experts" folds ep and etp out of everything but pp: its axes are pp, expert_replicate,
/// expert_shard, ep and etp. Experts have as many copies as the rest of the model if ep·etp divides
/// dp_shard·cp·tp; otherwise they are not sharded further.
///
/// Each group has one purpose, even if its ranks are those of another:
///
///   tp, cp, pp, ep, etp                   the strategies themselves
///   dp_replicate, dp_shard, dp_shard_cp   who holds copies, who holds shards
///   expert_replicate, expert_shard        the same for experts
///   batch                                 who shares the rows of a batch
///   loss                                  over whom the loss and its number of tokens are summed
///   grad, expert_grad                     over whom the gradient of a parameter is summed
///   norm                                  over whom the squares of disjoint parts are summed
///   embedding                             the first and the last rank of a pipeline: tied weights
///
/// ConfigError if a degree is below 1, the product is not `world`, or ep·etp does not divide
/// dp·cp·tp.
Plan train_plan(int64_t world, const ParallelDims& dims);

}  // namespace tessera
