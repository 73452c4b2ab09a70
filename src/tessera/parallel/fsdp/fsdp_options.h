#pragma once

#include <ATen/core/ScalarType.h>

#include <cstdint>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"

namespace tessera TSR_API {

/// When the memory of a unit's gathered parameters is freed.
enum class Reshard {
  kAlways,      // After its forward pass, and again after its backward pass.
  kAllButLast,  // The same, but the last unit stays for its backward pass, which comes next.
  kNever,       // After its backward pass alone.
  kToSmaller,   // After its forward pass it stays sharded over a smaller group of ranks.
  kKeep,        // Not at all (ZeRO-1): each step gathers the new values once.
};

/// Who gathers and reduces: at which moments of a step.
enum class ShardTime {
  kPerUnit,    // Around each unit's passes, the next unit ahead of time.
  kAtActions,  // All units of a stage at UNSHARD, RESHARD and REDUCE_GRAD of a pipeline's table.
};

/// When units are gathered and freed, and in which dtypes.
struct FsdpOptions {
  Reshard reshard = Reshard::kAllButLast;  // Freeing early saves memory, but costs all-gathers.
  /// The number of ranks of the smaller group of kToSmaller; it must divide that of the shards.
  int64_t smaller = 1;
  ShardTime when = ShardTime::kPerUnit;  // kAtActions for stages of a pipeline.
  /// Whether each slice of a batch is reduced, so that no rank holds more gradients than its
  /// shards; otherwise the gradients of the slices are summed first and reduced once.
  bool reduce_each = false;
  /// The dtype of gathered parameters, of compute and of gradients; that of the parameters, unless
  /// set. The shards keep theirs.
  std::optional<at::ScalarType> compute_dtype = std::nullopt;
  /// The dtype in which gradients are summed; that of the gradients, unless set.
  std::optional<at::ScalarType> reduce_dtype = std::nullopt;
  /// Whether shards, their gradients and with them the optimizer's state stay in the CPU's memory.
  bool offload = false;
  double share = 1;  // This rank's share of the rows of a batch.
};

/// Over whom a stage is sharded, and over whom the shards are replicated (HSDP).
struct FsdpGroups {
  Group shard;      // Its ranks hold different shards.
  Group replicate;  // Its ranks hold replicas of this rank's shards; of size 1 without HSDP.

  /// Number of ranks whose gradients are summed.
  int64_t size() const { return shard.size() * replicate.size(); }
};

}  // namespace tessera
