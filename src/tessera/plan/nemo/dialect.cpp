// NeMo AutoModel's flags for layouts.
#include "tessera/base/check.h"
#include "tessera/plan/internal/dialects.h"
#include "tessera/plan/nemo/plan.h"

namespace tessera::plan::detail {
namespace {

std::vector<DialectFlag> flags() {
  return {
      {"--strategy", "", "strategy", "NAME", "fsdp2, megatron_fsdp or ddp (fsdp2)"},
      {"--dp-size", "", "dp", "N", "data-parallel size (the rest)"},
      {"--dp-replicate-size", "", "replicas", "N", "replicas (1; fsdp2 only)"},
      {"--tp-size", "", "tp", "N", "tensor-parallel size (1)"},
      {"--pp-size", "", "pp", "N", "pipeline-parallel size (1; fsdp2 only)"},
      {"--cp-size", "", "cp", "N", "context-parallel size (1)"},
      {"--ep-size", "", "ep", "N", "expert-parallel size (1; fsdp2 only)"},
      {"--moe-mesh", "", "moe-mesh", "KIND",
       "document: experts over dp·cp; today: over dp·cp·tp (document)"},
  };
}

nemo::MoeMesh moe_mesh_of(const FlagReader& flags) {
  const std::string kind = flags.text("moe-mesh").value_or("document");
  const std::vector<std::string> kinds{"document", "today"};
  TSR_CHECK(kind == "document" || kind == "today", "--moe-mesh '", kind,
            "' is unknown; choose document or today", did_you_mean(kind, kinds));
  return kind == "today" ? nemo::MoeMesh::kToday : nemo::MoeMesh::kDocument;
}

nemo::ParallelismSizes sizes_of(const FlagReader& flags) {
  return {.dp_size = flags.integer("dp"),
          .dp_replicate_size = flags.integer("replicas"),
          .tp_size = flags.integer("tp").value_or(1),
          .pp_size = flags.integer("pp").value_or(1),
          .cp_size = flags.integer("cp").value_or(1),
          .ep_size = flags.integer("ep").value_or(1)};
}

std::vector<RoleOf> roles_of(const Plan& plan, std::string_view strategy, nemo::MoeMesh moe_mesh) {
  std::vector<RoleOf> roles;
  const auto add = [&](Role role, const char* name) {
    if (plan.find(name) != nullptr) roles.push_back({role, name});
  };
  add(Role::kTensor, "tp");
  add(Role::kContext, "cp");
  add(Role::kData, "dp");
  add(Role::kPipeline, "pp");
  add(Role::kExpert, "ep");
  add(Role::kExpertShards, "ep_shard");
  if (moe_mesh == nemo::MoeMesh::kDocument && plan.find("ep") != nullptr) {
    add(Role::kExpertTensor, "tp");
  }
  if (strategy == "fsdp2") {
    add(Role::kShards, "dp_shard_cp");
    add(Role::kReplicas, "dp_replicate");
  } else if (strategy == "ddp") {
    add(Role::kGradients, "dp");
  } else {
    add(Role::kShards, plan.find("dp_cp") != nullptr ? "dp_cp" : "dp");
  }
  return roles;
}

DialectPlan make_plan(const DialectQuery& query) {
  const Dialect dialect = nemo_dialect();
  const FlagReader flags(dialect, query.flags);
  const auto config = nemo::strategy_named(flags.text("strategy").value_or("fsdp2"));
  const nemo::MoeMesh moe_mesh = moe_mesh_of(flags);
  Plan plan = nemo_plan(query.world, config, sizes_of(flags), {.moe_mesh = moe_mesh});
  std::vector<ShownLayout> layouts{shown_as_is("mesh", plan.layout("world"))};
  if (plan.find("ep") != nullptr) layouts.push_back(shown_as_is("experts", plan.layout("moe")));
  const std::string strategy = strategy_name(config);
  std::vector<RoleOf> roles = roles_of(plan, strategy, moe_mesh);
  return {.dialect = dialect.name,
          .plan = std::move(plan),
          .layouts = std::move(layouts),
          .notes = {{"strategy", strategy, ""}},
          .roles = std::move(roles)};
}

FlagValues sizes_flags(const DialectPlan& wanted) {
  FlagValues flags;
  add_unless(flags, "--tp-size", wanted.size(Role::kTensor), 1);
  add_unless(flags, "--pp-size", wanted.size(Role::kPipeline), 1);
  add_unless(flags, "--cp-size", wanted.size(Role::kContext), 1);
  add_unless(flags, "--dp-replicate-size", wanted.copies(), 1);
  add_unless(flags, "--ep-size", wanted.size(Role::kExpert), 1);
  return flags;
}

std::vector<FlagValues> attempts(const DialectPlan& wanted) {
  const FlagValues sizes = sizes_flags(wanted);
  if (sizes.empty() && keeps_whole_models(wanted)) return {{{"--strategy", "ddp"}}};
  if (wanted.size(Role::kExpert) == 1 || wanted.size(Role::kTensor) == 1) return {sizes};
  FlagValues today = sizes;
  today.push_back({"--moe-mesh", "today"});
  return {sizes, today};
}

}  // namespace

Dialect nemo_dialect() {
  return {.name = "nemo",
          .flags = flags(),
          .rule =
              "its axes are pp, dp, cp and tp, the last one fastest, and experts are "
              "consecutive ranks of dp·cp (of dp·cp·tp with --moe-mesh today)",
          .example = {{"--tp-size", "4"}, {"--dp-replicate-size", "2"}},
          .plan = make_plan,
          .attempts = attempts};
}

}  // namespace tessera::plan::detail
