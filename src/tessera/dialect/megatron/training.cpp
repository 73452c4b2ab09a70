#include "tessera/dialect/megatron/training.h"

#include "tessera/base/check.h"
#include "tessera/dialect/internal/setup.h"

namespace tessera::megatron {

using namespace dialect::detail;

namespace {

void check_order(const Layout& decoder, const MegatronConfig& config, const ParallelDims& dims) {
  const Layout ours = train_plan(decoder.size(), dims).layout("world");
  TSR_CHECK(ours.axis("pp") == decoder.axis("pp"), "the order ", config.order,
            " places the ranks of a pipeline side by side; training needs pp last, as in "
            "tp-cp-ep-dp-pp");
}

// The exchange is Megatron-Core's default, p2p; with sizes a2a+p2p.
ContextParallelOptions context_of(const MegatronConfig& config) {
  const std::vector<int64_t>& sizes = config.hierarchical_context_parallel_sizes;
  if (sizes.empty()) return {};
  TSR_CHECK(sizes.size() == 2, "hierarchical_context_parallel_sizes ", join(sizes, "·"), " has ",
            sizes.size(), " levels; training takes 2, all-to-all and ring");
  return {.type = "hierarchical", .sizes = sizes};
}

}  // namespace

TrainingSetup training_setup(int64_t world, const MegatronConfig& config) {
  const Layout decoder = megatron_plan(world, config).layout("decoder");
  const int64_t tp = config.tensor_model_parallel_size;
  const ParallelDims dims{.pp = config.pipeline_model_parallel_size,
                          .cp = config.context_parallel_size,
                          .tp = tp,
                          .ep = config.expert_model_parallel_size,
                          .etp = config.expert_tensor_parallel_size.value_or(
                              config.expert_model_parallel_size > 1 ? tp : 1)};
  TrainingSetup setup =
      setup_of(dims, {.dp = size_of(decoder, "dp"),
                      .type = "zero1",
                      .dp_replicate = config.num_distributed_optimizer_instances});
  setup.options.sequence = false;
  setup.options.context = context_of(config);
  check_order(decoder, config, setup.dims);
  return setup;
}

}  // namespace tessera::megatron
