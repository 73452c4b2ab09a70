#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "tessera/base/export.h"
#include "tessera/layer/unit.h"
#include "tessera/mesh/realize.h"
#include "tessera/parallel/ddp/ddp.h"
#include "tessera/parallel/fsdp/fsdp_options.h"
#include "tessera/parallel/recompute/recompute.h"
#include "tessera/plan/context_parallel.h"
#include "tessera/schedule/schedule.h"
#include "tessera/train/engine.h"

namespace tessera TSR_API {

/// The schedule of one rank: computes this many slices of a batch, one after the other.
Schedule one_rank(int64_t slices = 1);

/// What compose() combines with a model.
struct ComposeOptions {
  int64_t batch = 1;                        // Rows per global batch.
  Schedule schedule = one_rank();           // The schedule of each replica.
  at::Device device = at::kCPU;             // Of compute.
  bool sequence = true;                     // Sequence parallelism, if the plan has tp.
  bool tensor_async = false;                // Products of tp beside their communication.
  Dispatch dispatch = Dispatch::kAllToAll;  // How tokens reach the ranks of their experts.
  CapacityOptions capacity = {};            // Which tokens full experts drop.
  Recompute recompute = Recompute::kNone;   // Activation checkpointing of each unit.
  ContextParallelOptions context = {};      // If the plan has cp.
  /// Record a step as a CUDA graph and repeat it (GraphedStep). Only for one rank with a GPU and
  /// one stage, for models without experts, and without recompute and documents. Useless if the
  /// share of targets that count differs from batch to batch, which needs another recording each
  /// time.
  bool graphs = false;
  DdpOptions ddp = {};    // If the plan only replicates.
  FsdpOptions fsdp = {};  // If the plan shards. compose() sets `when` and `share`.
};

/// **Collective.** Distributes a model over the ranks of a train_plan(), with all strategies of the
/// plan.
///
///   World world = World::connect();
///   const Plan plan = train_plan(world.size(), {.dp_replicate = world.size()});
///   Engine engine = compose(model, realize(plan, world), {.batch = 32});
///
/// ConfigError, the same on all ranks, if the model, the plan and the batch do not fit.
Engine compose(const Model& model, const RealizedPlan& plan, const ComposeOptions& options);

}  // namespace tessera
