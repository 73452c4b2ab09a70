// OLMo-core's flags for layouts.
#include "tessera/base/check.h"
#include "tessera/plan/internal/dialects.h"
#include "tessera/plan/olmo/plan.h"

namespace tessera::plan::detail {
namespace {

std::vector<DialectFlag> flags() {
  return {
      {"--dp-type", "", "dp-type", "TYPE", "fsdp, hsdp or ddp (fsdp)"},
      {"--num-replicas", "", "replicas", "N", "replicas of the model, for hsdp (one per node)"},
      {"--shard-degree", "", "shards", "N", "ranks that shard a replica, for hsdp (a node's)"},
      {"--tp", "", "tp", "N", "tensor-parallel degree"},
      {"--cp", "", "cp", "N", "context-parallel degree"},
      {"--pp", "", "pp", "N", "pipeline-parallel degree"},
      {"--ep", "", "ep", "N", "expert-parallel degree: the shard degree of hsdp"},
  };
}

template <class Config>
std::optional<Config> degree_of(const FlagReader& flags, std::string_view meaning) {
  const std::optional<int64_t> degree = flags.integer(meaning);
  if (!degree) return std::nullopt;
  Config config;
  config.degree = *degree;
  return config;
}

// OLMo silently ignores the degrees unless the type is HSDP.
olmo::DataParallelConfig data_parallel_of(const FlagReader& flags) {
  using olmo::DataParallelType;
  const std::string type = flags.text("dp-type").value_or("fsdp");
  const olmo::DataParallelConfig config{.name = olmo::from_string<DataParallelType>(type),
                                        .num_replicas = flags.integer("replicas"),
                                        .shard_degree = flags.integer("shards")};
  TSR_CHECK(config.name == DataParallelType::hsdp || config.needs_num_nodes(),
            config.num_replicas ? "--num-replicas" : "--shard-degree",
            " needs hsdp, but the type is ", config.name, "; add --dp-type hsdp, or leave it out");
  return config;
}

olmo::WorldMeshConfig config_of(const olmo::DataParallelConfig& dp, const FlagReader& flags) {
  return {.dp = dp,
          .tp = degree_of<olmo::TensorParallelConfig>(flags, "tp"),
          .cp = degree_of<olmo::ContextParallelConfig>(flags, "cp"),
          .pp = degree_of<olmo::PipelineParallelConfig>(flags, "pp"),
          .ep = degree_of<olmo::ExpertParallelConfig>(flags, "ep")};
}

// A model is wrapped over dp and cp; HSDP's shard groups also hold the experts.
std::vector<RoleOf> roles_of(olmo::DataParallelType type, const olmo::WorldMeshConfig& config) {
  const bool hybrid = type == olmo::DataParallelType::hsdp;
  const bool replicated = type == olmo::DataParallelType::ddp;
  const std::string wrapped = config.cp ? "dp_cp" : hybrid ? "dp_shard" : "dp";
  std::vector<RoleOf> roles;
  if (config.tp) roles.push_back({Role::kTensor, "tp"});
  if (config.cp) roles.push_back({Role::kContext, "cp"});
  roles.push_back({Role::kData, "dp"});
  if (config.pp) roles.push_back({Role::kPipeline, "pp"});
  if (config.ep) roles.push_back({Role::kExpert, "dp_shard"});
  roles.push_back({replicated ? Role::kGradients : Role::kShards, wrapped});
  if (hybrid) roles.push_back({Role::kReplicas, "dp_replicate"});
  return roles;
}

int64_t num_nodes(const DialectQuery& query) {
  return query.world / query.gpus_per_node + (query.world % query.gpus_per_node != 0);
}

DialectPlan make_plan(const DialectQuery& query) {
  const Dialect dialect = olmo_dialect();
  const FlagReader flags(dialect, query.flags);
  const olmo::DataParallelConfig dp = data_parallel_of(flags);
  const olmo::WorldMeshConfig config = config_of(dp, flags);
  Plan plan = olmo_plan(query.world, config, num_nodes(query));
  std::vector<ShownLayout> layouts{shown_as_is("mesh", plan.layout("world"))};
  return {.dialect = dialect.name,
          .plan = std::move(plan),
          .layouts = std::move(layouts),
          .notes = {{"dp-type", to_string(dp.name), ""}},
          .roles = roles_of(dp.name, config)};
}

std::vector<FlagValues> attempts(const DialectPlan& wanted) {
  const int64_t ep = wanted.size(Role::kExpert);
  FlagValues flags;
  if (ep > 1) {
    flags = {{"--dp-type", "hsdp"}, {"--shard-degree", concat(ep)}};
  } else if (wanted.copies() > 1) {
    flags = {{"--dp-type", "hsdp"}, {"--num-replicas", concat(wanted.copies())}};
  } else if (keeps_whole_models(wanted)) {
    flags = {{"--dp-type", "ddp"}};
  }
  add_unless(flags, "--tp", wanted.size(Role::kTensor), 1);
  add_unless(flags, "--cp", wanted.size(Role::kContext), 1);
  add_unless(flags, "--pp", wanted.size(Role::kPipeline), 1);
  add_unless(flags, "--ep", ep, 1);
  return {flags};
}

}  // namespace

Dialect olmo_dialect() {
  return {.name = "olmo",
          .flags = flags(),
          .rule =
              "its axes are pp, dp, cp and tp, the last one fastest, and experts are on the "
              "hsdp shard axis, without tp",
          .example = {{"--dp-type", "hsdp"}, {"--num-replicas", "2"}, {"--tp", "4"}, {"--pp", "2"}},
          .plan = make_plan,
          .attempts = attempts};
}

}  // namespace tessera::plan::detail
