// Megatron-Core's flags for layouts.
#include <algorithm>
#include <set>

#include "tessera/base/check.h"
#include "tessera/plan/internal/dialects.h"
#include "tessera/plan/megatron/plan.h"

namespace tessera::plan::detail {
namespace {

const char* const kInstances = "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP";

std::vector<DialectFlag> flags() {
  return {
      {"--tensor-model-parallel-size", "--tp", "tp", "N", "tensor-parallel size (1)"},
      {"--pipeline-model-parallel-size", "--pp", "pp", "N", "pipeline-parallel size (1)"},
      {"--context-parallel-size", "--cp", "cp", "N", "context-parallel size (1)"},
      {"--expert-model-parallel-size", "--ep", "ep", "N", "expert-parallel size (1)"},
      {"--expert-tensor-parallel-size", "--etp", "etp", "N",
       "tensor-parallel size of the experts (as tp)"},
      {"--order", "", "order", "A-B-C", "axes, fastest first (tp-cp-ep-dp-pp)"},
      {"--num-distributed-optimizer-instances", "", "replicas", "N",
       "replicas of the optimizer state (1)"},
  };
}

MegatronConfig config_of(const FlagReader& flags) {
  MegatronConfig config{
      .tensor_model_parallel_size = flags.integer("tp").value_or(1),
      .pipeline_model_parallel_size = flags.integer("pp").value_or(1),
      .context_parallel_size = flags.integer("cp").value_or(1),
      .expert_model_parallel_size = flags.integer("ep").value_or(1),
      .num_distributed_optimizer_instances = flags.integer("replicas").value_or(1),
      .expert_tensor_parallel_size = flags.integer("etp"),
      .create_gloo_process_groups = false};  // They would repeat the groups shown.
  if (const auto order = flags.text("order")) config.order = *order;
  return config;
}

std::vector<RoleOf> roles_of(const Plan& plan, const MegatronConfig& config) {
  std::vector<RoleOf> roles{{Role::kTensor, "TENSOR_MODEL_PARALLEL_GROUP"},
                            {Role::kContext, "CONTEXT_PARALLEL_GROUP"},
                            {Role::kData, "DATA_PARALLEL_GROUP"},
                            {Role::kPipeline, "PIPELINE_MODEL_PARALLEL_GROUP"},
                            {Role::kExpert, "EXPERT_MODEL_PARALLEL_GROUP"},
                            {Role::kGradients, "DATA_PARALLEL_GROUP_WITH_CP"}};
  if (config.expert_model_parallel_size > 1 || config.expert_tensor_parallel_size) {
    roles.push_back({Role::kExpertGradients, "EXPERT_DATA_PARALLEL_GROUP"});
    roles.push_back({Role::kExpertTensor, "EXPERT_TENSOR_PARALLEL_GROUP"});
  }
  if (plan.find(kInstances) != nullptr) roles.push_back({Role::kShards, kInstances});
  return roles;
}

DialectPlan make_plan(const DialectQuery& query) {
  const Dialect dialect = megatron_dialect();
  const MegatronConfig config = config_of(FlagReader(dialect, query.flags));
  Plan plan = megatron_plan(query.world, config);
  std::vector<ShownLayout> layouts{
      {"decoder", plan.layout("decoder"), {{"tp", "tp"}, {"cp", "cp"}, {"dp", "dp"}, {"pp", "pp"}}},
      {"experts",
       plan.layout("expert"),
       {{"etp", "tp"}, {"ep", "ep"}, {"edp", "dp"}, {"pp", "pp"}}}};
  std::vector<RoleOf> roles = roles_of(plan, config);
  return {.dialect = dialect.name,
          .plan = std::move(plan),
          .layouts = std::move(layouts),
          .notes = {{"order", config.order, ", fastest first"}},
          .roles = std::move(roles)};
}

// The distance from the first to the second member of rank 0's group.
int64_t stride_of(const DialectPlan& wanted, Role role) {
  const GroupSpec* const spec = wanted.find(role);
  if (spec == nullptr || spec->groups.size() == 1) return 0;
  const auto group = spec->groups.group_of(GlobalRank{0});
  return group ? (*group)[1].value - (*group)[0].value : 0;
}

struct AxisStride {
  std::string name;
  int64_t stride = 0;
};
using AxisStrides = std::vector<AxisStride>;

// Whether axes with several ranks nest in this order, fastest first.
bool ascends(const AxisStrides& order) {
  int64_t below = 0;
  for (const AxisStride& axis : order) {
    if (axis.stride == 0) continue;
    if (axis.stride < below) return false;
    below = axis.stride;
  }
  return true;
}

// The axes whose places matter: those with several ranks, and those that may have several among
// the experts.
std::vector<std::string> placed(const AxisStrides& order, const DialectPlan& wanted) {
  const bool sliced = wanted.size(Role::kExpertTensor) > 1;
  std::vector<std::string> names;
  for (const auto& [name, stride] : order) {
    const bool expert = name == "ep" || name == "dp" || (name == "tp" && sliced);
    if (stride > 0 || expert) names.push_back(name);
  }
  return names;
}

// Orders in which the wanted axes nest as required, with ep at every place; the default is first.
std::vector<std::string> orders(const DialectPlan& wanted) {
  AxisStrides order{{"tp", stride_of(wanted, Role::kTensor)},
                    {"cp", stride_of(wanted, Role::kContext)},
                    {"ep", 0},
                    {"dp", stride_of(wanted, Role::kData)},
                    {"pp", stride_of(wanted, Role::kPipeline)}};
  const auto default_place = [](const AxisStride& axis) {
    return MegatronConfig{}.order.find(axis.name);
  };
  std::vector<std::string> found;
  std::set<std::vector<std::string>> tried;
  do {
    if (!found.empty() && !ascends(order)) continue;
    if (!tried.insert(placed(order, wanted)).second) continue;
    std::vector<std::string> names;
    for (const AxisStride& axis : order) names.push_back(axis.name);
    found.push_back(join(names, "-"));
  } while (std::ranges::next_permutation(order, {}, default_place).found);
  return found;
}

FlagValues sizes(const DialectPlan& wanted) {
  FlagValues flags;
  add_unless(flags, "--tensor-model-parallel-size", wanted.size(Role::kTensor), 1);
  add_unless(flags, "--context-parallel-size", wanted.size(Role::kContext), 1);
  add_unless(flags, "--pipeline-model-parallel-size", wanted.size(Role::kPipeline), 1);
  add_unless(flags, "--num-distributed-optimizer-instances", wanted.copies(), 1);
  add_unless(flags, "--expert-model-parallel-size", wanted.size(Role::kExpert), 1);
  return flags;
}

std::vector<FlagValues> attempts(const DialectPlan& wanted) {
  FlagValues same = sizes(wanted);
  const int64_t expert_tensor = wanted.size(Role::kExpertTensor);
  const bool by_default =
      wanted.size(Role::kExpert) > 1 && expert_tensor == wanted.size(Role::kTensor);
  if (wanted.has_experts() && !by_default) {
    same.push_back({"--expert-tensor-parallel-size", concat(expert_tensor)});
  }
  std::vector<FlagValues> all;
  for (const std::string& order : orders(wanted)) {
    FlagValues flags = same;
    if (order != MegatronConfig{}.order) flags.push_back({"--order", order});
    all.push_back(std::move(flags));
  }
  return all;
}

}  // namespace

Dialect megatron_dialect() {
  return {
      .name = "megatron",
      .flags = flags(),
      .rule =
          "dp is the rest of the world, and experts divide tp·cp·dp in their own way, in the same "
          "order, with ep instead of cp",
      .example = {{"--tp", "8"}, {"--pp", "2"}},
      .plan = make_plan,
      .attempts = attempts};
}

}  // namespace tessera::plan::detail
