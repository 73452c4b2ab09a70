#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "tessera/base/export.h"
#include "tessera/layer/unit.h"
#include "tessera/mesh/realize.h"
#include "tessera/parallel/fsdp/fsdp_options.h"
#include "tessera/schedule/schedule.h"
#include "tessera/train/engine.h"

namespace tessera TSR_API {

/// The table of a pipeline of one rank: so many slices of a batch, one after the other.
Schedule one_rank(int64_t slices = 1);

struct ComposeOptions {
  int64_t batch = 1;               // Rows of every global batch.
  Schedule schedule = one_rank();  // Of each replica.
  at::Device device = at::kCPU;
  bool recompute = false;  // Activation checkpointing of each unit.
  FsdpOptions fsdp = {};   // If the plan shards. compose() sets `when` and `share`.
};

/// **Collective.** A model on the ranks of a train_plan(): every strategy that the plan has a
/// degree for, one after the other.
///
///   World world = World::connect();
///   const Plan plan = train_plan(world.size(), {.dp_replicate = world.size()});
///   Engine engine = compose(model, realize(plan, world), {.batch = 32});
///
/// ConfigError, the same on all ranks, if the model, the plan and the batch do not go together.
Engine compose(const Model& model, const RealizedPlan& plan, const ComposeOptions& options);

}  // namespace tessera
