#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/plan/train_plan.h"
#include "tessera/train/compose.h"

namespace tessera TSR_API {

/// The arguments of train_plan() and compose() that a dialect's configuration stands for.
///
///   TrainingSetup setup = nemo::training_setup(world.size(), nemo::FSDP2Config{});
///   setup.options.batch = 32;
///   const Plan plan = train_plan(world.size(), setup.dims, setup.options.context.sizes);
///   Engine engine = compose(model, realize(plan, world), setup.options);
///
/// The batch, the device and the schedule of a pipeline are the caller's.
struct TrainingSetup {
  std::string dp_type = "ddp";  // See data_parallel_types().
  ParallelDims dims = {};       // Of train_plan().
  ComposeOptions options = {};  // Of compose().
};

}  // namespace tessera
