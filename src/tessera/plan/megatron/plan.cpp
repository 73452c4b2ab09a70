#include "tessera/plan/megatron/plan.h"

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/plan/internal/sizes.h"
#include "tessera/plan/megatron/internal/specs.h"
#include "tessera/topology/rank_generator.h"

namespace tessera {

using namespace megatron::detail;
using namespace plan::detail;

namespace {

// Both layouts must agree on the pipelines, or a stage would have two neighbours.
void check_pipelines(std::string_view order, const Layout& decoder, const Layout& expert) {
  const int64_t dp = decoder.axis("dp").size();
  const int64_t edp = expert.axis("dp").size();
  TSR_CHECK(to_lower(order).ends_with("pp") || decoder.axis("pp").size() == 1 || dp == edp,
            "order '", order, "' does not end with pp although pp=", decoder.axis("pp").size(),
            " and the data-parallel sizes differ (decoder ", dp, ", experts ", edp,
            "); put pp last, or choose ep and etp so that they agree");
  TSR_CHECK(decoder.axis("pp") == expert.axis("pp"), "order '", order,
            "' gives the decoder and the experts different pipelines (", decoder, " and ", expert,
            "); put pp last, or make the product of the sizes before pp equal");
}

void check_pipeline_arguments(const MegatronConfig& config) {
  const auto& chunks = config.virtual_pipeline_model_parallel_size;
  if (chunks) {
    check_positive("virtual pp", *chunks);
    TSR_CHECK(config.pipeline_model_parallel_size > 1, "virtual pp=", *chunks, " needs pp above 1,",
              " not ", config.pipeline_model_parallel_size,
              "; raise pp, or leave the virtual size out");
  }
  const auto& backend = config.pipeline_model_parallel_comm_backend;
  TSR_CHECK(!backend || *backend == "nccl" || *backend == "ucc",
            "pipelines cannot communicate over '", backend.value_or(""),
            "'; choose nccl or ucc, or leave the back end out");
}

void check_sharp(const MegatronConfig& config) {
  const auto& group = config.sharp_enabled_group;
  if (!group) return;
  TSR_CHECK(config.use_sharp, "sharp_enabled_group '", *group,
            "' is given, but use_sharp is off; switch it on, or leave the group out");
  TSR_CHECK(*group == "dp" || *group == "dp_replica", "sharp_enabled_group '", *group,
            "' is unknown; choose dp or dp_replica");
  TSR_CHECK(*group == "dp" || config.num_distributed_optimizer_instances > 1,
            "sharp_enabled_group 'dp_replica' needs several optimizer instances; raise ",
            "num_distributed_optimizer_instances above 1, or choose dp");
}

void check_context_parallel(const MegatronConfig& config, int64_t dp_cp) {
  const auto& sizes = config.hierarchical_context_parallel_sizes;
  for (const int64_t size : sizes) check_positive("a level of hierarchical cp", size);
  const int64_t product = checked_product(sizes, "the product of the hierarchical cp sizes");
  TSR_CHECK(sizes.empty() || product == config.context_parallel_size, "the hierarchical cp sizes ",
            join(sizes, "·"), " = ", product, " are not cp=", config.context_parallel_size,
            "; choose sizes whose product is cp");
  TSR_CHECK(!config.hybrid_context_parallel || dp_cp % 2 == 0, "hybrid context parallelism pairs ",
            "ranks, but dp·cp = ", dp_cp, " is odd; choose sizes that make it even");
}

void check_instances(int64_t instances, int64_t dp_cp, int64_t edp) {
  check_positive("num_distributed_optimizer_instances", instances);
  TSR_CHECK(dp_cp % instances == 0, "dp·cp = ", dp_cp, " is not divisible by ", instances,
            " optimizer instances; choose a divisor of ", dp_cp);
  TSR_CHECK(edp % instances == 0, "the experts' dp = ", edp, " is not divisible by ", instances,
            " optimizer instances; choose a common divisor of ", dp_cp, " and ", edp);
}

NcclConfig nccl_config(const MegatronConfig& config) {
  NcclConfig nccl;
  if (config.nccl_communicator_config_path) {
    nccl = read_nccl_config(*config.nccl_communicator_config_path);
  }
  set_high_priority(nccl, config.high_priority_stream_groups);
  return nccl;
}

CheckedMegatron check(int64_t world, const MegatronConfig& config) {
  const int64_t tp = config.tensor_model_parallel_size;
  const int64_t pp = config.pipeline_model_parallel_size;
  const int64_t cp = config.context_parallel_size;
  const int64_t ep = config.expert_model_parallel_size;
  const int64_t etp = config.expert_tensor_parallel_size.value_or(tp);
  const int64_t dp = divide_world(world, {{"tp", tp}, {"cp", cp}, {"pp", pp}});
  const int64_t edp = divide_world(world, {{"etp", etp}, {"ep", ep}, {"pp", pp}});
  check_pipeline_arguments(config);
  check_instances(config.num_distributed_optimizer_instances, dp * cp, edp);
  check_sharp(config);
  check_context_parallel(config, dp * cp);
  check_minutes("distributed_timeout_minutes", config.distributed_timeout_minutes);
  Layout decoder = RankGenerator(tp, 1, dp, pp, cp, config.order).layout();
  Layout expert = RankGenerator(etp, ep, edp, pp, 1, config.order).layout();
  check_pipelines(config.order, decoder, expert);
  return {config, std::move(decoder), std::move(expert), nccl_config(config)};
}

// A variable enables SHARP while its groups are created; UCC needs several throughout.
std::vector<VariableRule> variable_rules(const MegatronConfig& config) {
  using Action = VariableRule::Action;
  std::vector<VariableRule> rules{{"NCCL_COLLNET_ENABLE", Action::kRemove}};
  if (config.pipeline_model_parallel_comm_backend != "ucc") return rules;
  rules.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", Action::kRefuse, "1",
                   "leaves UCC no connection of its own; unset it, or raise it above 1"});
  rules.push_back({"TORCH_UCC_BLOCKING_WAIT", Action::kSetIfAbsent, "none"});
  rules.push_back({"UCC_EC_CUDA_STREAM_TASK_MODE", Action::kSetIfAbsent, "driver"});
  rules.push_back({"UCX_TLS", Action::kSetIfAbsent, "ib,cuda_copy"});
  rules.push_back({"NSYS_UCP_COMM_PARAMS", Action::kSet, "1"});
  rules.push_back({"UCX_RNDV_THRESH", Action::kSet, "0"});
  rules.push_back({"UCX_NET_DEVICES", Action::kSet, "all"});
  rules.push_back({"UCC_CL_BASIC_TLS", Action::kSet, "^sharp,nccl"});
  return rules;
}

}  // namespace

Plan megatron_plan(int64_t world, const MegatronConfig& config) {
  CheckedMegatron checked = check(world, config);
  std::vector<GroupSpec> specs = megatron_specs(checked);
  return Plan(world,
              {{"decoder", std::move(checked.decoder)}, {"expert", std::move(checked.expert)}},
              std::move(specs), variable_rules(config));
}

}  // namespace tessera
