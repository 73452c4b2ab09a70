#include "tessera/dialect/olmo/training.h"

#include <string>

#include "tessera/base/check.h"
#include "tessera/dialect/internal/setup.h"
#include "tessera/plan/olmo/context_parallel.h"
#include "tessera/plan/olmo/plan.h"

namespace tessera::olmo {

using namespace dialect::detail;

namespace {

at::ScalarType dtype_of(const char* field, DType dtype) {
  switch (dtype) {
    case DType::float32:
      return at::kFloat;
    case DType::bfloat16:
      return at::kBFloat16;
    case DType::float16:
      return at::kHalf;
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
      break;
  }
  throw ConfigError(concat("DataParallelConfig.", field, " is ", dtype,
                           ", in which nothing here computes; choose bfloat16"));
}

ParallelDims dims_of(const WorldMeshConfig& config) {
  return {.pp = config.pp ? config.pp->degree : 1,
          .cp = config.cp ? config.cp->degree : 1,
          .tp = config.tp ? config.tp->degree : 1,
          .ep = config.ep ? config.ep->degree : 1};
}

}  // namespace

TrainingSetup training_setup(int64_t world, const WorldMeshConfig& config, int64_t num_nodes) {
  TSR_CHECK(config.dp, "WorldMeshConfig.dp is not set; training needs a DataParallelConfig");
  const DataParallelConfig& dp = *config.dp;
  const Layout layout = olmo_plan(world, config, num_nodes).layout("world");
  const ParallelDims dims = dims_of(config);
  TrainingSetup setup = setup_of(dims, {.dp = world / dims.pp / dims.cp / dims.tp,
                                        .type = to_string(dp.name),
                                        .dp_replicate = size_of(layout, "dp_replicate")});
  setup.options.tensor_async = config.tp && config.tp->enable_async;
  const at::ScalarType reduce_dtype = dtype_of("reduce_dtype", dp.reduce_dtype);
  if (dp.name == DataParallelType::ddp) {
    check_unset(dp.param_dtype.has_value(), "DataParallelConfig.param_dtype with ddp",
                "replicas compute in the dtype of their parameters; build the model in that dtype, "
                "or choose fsdp");
    setup.options.ddp.reduce_dtype = reduce_dtype;
  } else {
    setup.options.fsdp.reduce_dtype = reduce_dtype;
    if (dp.param_dtype) {
      setup.options.fsdp.compute_dtype = dtype_of("param_dtype", *dp.param_dtype);
    }
  }
  return setup;
}

TrainingSetup training_setup(int64_t world, const WorldMeshConfig& config,
                             const TransformerContextParallelConfig& cp, int64_t num_nodes) {
  const int64_t degree = config.cp ? config.cp->degree : 1;
  TSR_CHECK(cp.degree == degree, "TransformerContextParallelConfig.degree is ", cp.degree,
            ", but that of WorldMeshConfig.cp is ", degree, "; give both the same");
  TrainingSetup setup = training_setup(world, config, num_nodes);
  setup.options.context = context_parallel_options(cp);
  return setup;
}

}  // namespace tessera::olmo
