// The layout flags of `tessera train` as a dialect.
#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/plan/internal/dialects.h"
#include "tessera/plan/internal/sizes.h"
#include "tessera/plan/train_plan.h"

namespace tessera::plan::detail {
namespace {

std::vector<DialectFlag> flags() {
  return {
      {"--dp", "", "dp", "N", "data-parallel degree (the rest)"},
      {"--dp-type", "", "dp-type", "TYPE", "ddp, fsdp, hsdp or zero1 (ddp)"},
      {"--dp-replicate", "", "replicas", "N", "replicas of the shards, of hsdp and zero1 (1)"},
      {"--tp", "", "tp", "N", "tensor-parallel degree (1)"},
      {"--cp", "", "cp", "N", "context-parallel degree (1)"},
      {"--pp", "", "pp", "N", "pipeline-parallel degree (1)"},
      {"--ep", "", "ep", "N", "expert-parallel degree (1)"},
      {"--etp", "", "etp", "N", "tensor-parallel degree of the experts (1)"},
  };
}

ParallelDims dims_of(int64_t world, const FlagReader& flags, const std::string& type) {
  const auto degree = [&](const char* meaning) { return flags.integer(meaning).value_or(1); };
  ParallelDims dims{.pp = degree("pp"),
                    .cp = degree("cp"),
                    .tp = degree("tp"),
                    .ep = degree("ep"),
                    .etp = degree("etp")};
  const std::optional<int64_t> dp = flags.integer("dp");
  const AxisSizes others{{"tp", dims.tp}, {"cp", dims.cp}, {"pp", dims.pp}};
  set_data_parallel(dims, {.dp = dp ? *dp : divide_world(world, others),
                           .type = type,
                           .dp_replicate = degree("replicas")});
  return dims;
}

bool has_experts(const ParallelDims& dims) {
  return dims.ep > 1 || dims.etp > 1;
}

std::vector<RoleOf> roles_of(const std::string& type, bool experts) {
  std::vector<RoleOf> roles{{Role::kTensor, "tp"},
                            {Role::kContext, "cp"},
                            {Role::kData, "batch"},
                            {Role::kPipeline, "pp"}};
  if (type == "ddp") {
    roles.push_back({Role::kGradients, "grad"});
  } else {
    roles.push_back({Role::kShards, "dp_shard_cp"});
    roles.push_back({Role::kReplicas, "dp_replicate"});
  }
  if (!experts) return roles;
  roles.push_back({Role::kExpert, "ep"});
  roles.push_back({Role::kExpertTensor, "etp"});
  if (type == "ddp") {
    roles.push_back({Role::kExpertGradients, "expert_grad"});
  } else {
    roles.push_back({Role::kExpertShards, "expert_shard"});
    roles.push_back({Role::kExpertReplicas, "expert_replicate"});
  }
  return roles;
}

// Without groups of one rank, and without those of experts if there are none. The data-parallel
// groups always stay: their sizes tell the number of replicas.
Plan without_idle_groups(const Plan& all, bool experts, const std::vector<RoleOf>& roles) {
  const auto plays = [&](const std::string& name, Role role) {
    return std::ranges::any_of(
        roles, [&](const RoleOf& entry) { return entry.role == role && entry.name == name; });
  };
  std::vector<GroupSpec> kept;
  for (const GroupSpec& spec : all.specs()) {
    if (spec.name.starts_with("expert_") && !experts) continue;
    const bool stays = plays(spec.name, Role::kData) || plays(spec.name, Role::kShards);
    if (stays || spec.groups.size() > 1) kept.push_back(spec);
  }
  return Plan(all.world(), {{"world", all.layout("world")}, {"experts", all.layout("experts")}},
              std::move(kept));
}

// Whether the model has experts, or the layout splits some.
DialectPlan layout_of(int64_t world, const ParallelDims& dims, const std::string& type,
                      bool experts) {
  std::vector<RoleOf> roles = roles_of(type, experts);
  Plan plan = without_idle_groups(train_plan(world, dims), experts, roles);
  std::erase_if(roles, [&](const RoleOf& role) { return plan.find(role.name) == nullptr; });
  std::vector<ShownLayout> layouts{shown_as_is("mesh", plan.layout("world"))};
  if (experts) layouts.push_back(shown_as_is("experts", plan.layout("experts")));
  return {.dialect = "tessera",
          .plan = std::move(plan),
          .layouts = std::move(layouts),
          .notes = {{"dp-type", type, ""}},
          .roles = std::move(roles)};
}

DialectPlan make_plan(const DialectQuery& query) {
  const Dialect dialect = tessera_dialect();
  const FlagReader flags(dialect, query.flags);
  const std::string type = flags.text("dp-type").value_or("ddp");
  const ParallelDims dims = dims_of(query.world, flags, type);
  return layout_of(query.world, dims, type, has_experts(dims));
}

std::vector<FlagValues> attempts(const DialectPlan& wanted) {
  FlagValues flags;
  if (wanted.copies() > 1) {
    flags = {{"--dp-type", "hsdp"}, {"--dp-replicate", concat(wanted.copies())}};
  } else if (wanted.find(Role::kShards) != nullptr) {
    flags = {{"--dp-type", "fsdp"}};
  }
  add_unless(flags, "--tp", wanted.size(Role::kTensor), 1);
  add_unless(flags, "--cp", wanted.size(Role::kContext), 1);
  add_unless(flags, "--pp", wanted.size(Role::kPipeline), 1);
  add_unless(flags, "--ep", wanted.size(Role::kExpert), 1);
  add_unless(flags, "--etp", wanted.size(Role::kExpertTensor), 1);
  return {flags};
}

}  // namespace

Dialect tessera_dialect() {
  return {.name = "tessera",
          .flags = flags(),
          .rule =
              "its axes are pp, dp, cp and tp, the last one fastest, and experts divide "
              "dp·cp·tp in their own way: etp fastest, then ep",
          .example = {{"--dp-type", "hsdp"}, {"--dp-replicate", "2"}, {"--tp", "4"}, {"--pp", "2"}},
          .plan = make_plan,
          .attempts = attempts};
}

}  // namespace tessera::plan::detail

namespace tessera {

DialectPlan train_layout(const ParallelDims& dims, const std::string& data_parallel_type,
                         bool experts) {
  return plan::detail::layout_of(dims.world(), dims, data_parallel_type, experts);
}

}  // namespace tessera
