#include "tessera/plan/train_plan.h"

#include <algorithm>
#include <array>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"

namespace tessera {
namespace {

struct Degree {
  const char* name;
  int64_t ParallelDims::*member;
};
constexpr std::array kDegrees{
    Degree{"pp", &ParallelDims::pp},
    Degree{"dp_replicate", &ParallelDims::dp_replicate},
    Degree{"dp_shard", &ParallelDims::dp_shard},
    Degree{"cp", &ParallelDims::cp},
    Degree{"tp", &ParallelDims::tp},
    Degree{"ep", &ParallelDims::ep},
    Degree{"etp", &ParallelDims::etp},
};
constexpr size_t kAxes = 5;  // The degrees that are axes of the layout "world".

void check_degrees(int64_t world, const ParallelDims& dims) {
  for (const auto& [name, member] : kDegrees) {
    TSR_CHECK(dims.*member >= 1, name, " is ", dims.*member, ", but must be at least 1");
  }
  TSR_CHECK(dims.world() == world, "the product of pp ", dims.pp, ", dp ",
            dims.dp_replicate * dims.dp_shard, ", cp ", dims.cp, " and tp ", dims.tp, " is ",
            dims.world(), ", but there are ", world,
            " ranks; change a degree or the number of ranks");
  const int64_t experts = checked_multiply(dims.ep, dims.etp, "ep × etp");
  const int64_t ranks = world / dims.pp;
  TSR_CHECK(ranks % experts == 0, "ep ", dims.ep, " × etp ", dims.etp, " = ", experts,
            " does not divide dp·cp·tp = ", ranks, "; choose divisors of ", ranks);
}

void check_cp_sizes(const std::vector<int64_t>& sizes, int64_t cp) {
  const bool fits = sizes.size() == 2 && sizes[0] >= 1 && sizes[1] >= 1 && cp % sizes[0] == 0 &&
                    cp / sizes[0] == sizes[1];
  TSR_CHECK(fits, "the hierarchical cp sizes ", join(sizes, "·"),
            " are not two sizes with product ", cp, "; choose a divisor of cp and the quotient");
}

Layout world_layout(const ParallelDims& dims) {
  AxisSizes axes;
  for (size_t i = 0; i < kAxes; ++i) axes.push_back({kDegrees[i].name, dims.*kDegrees[i].member});
  return Layout::row_major(axes);
}

// Whether the experts of one replica are on the ranks of that replica.
bool fits_in_copy(const ParallelDims& dims) {
  return dims.dp_shard * dims.cp * dims.tp % (dims.ep * dims.etp) == 0;
}

Layout expert_layout(const ParallelDims& dims) {
  const int64_t copies = dims.world() / dims.pp / (dims.ep * dims.etp);
  const int64_t replicate = fits_in_copy(dims) ? dims.dp_replicate : copies;
  return Layout::row_major({{"pp", dims.pp},
                            {"expert_replicate", replicate},
                            {"expert_shard", copies / replicate},
                            {"ep", dims.ep},
                            {"etp", dims.etp}});
}

GroupSpec spec(const std::string& name, const Layout& layout, const AxisNames& axes,
               const Selection& selection = Whole{}) {
  return {.name = name, .label = name, .groups = GroupFamily(layout, axes, selection)};
}

// Replicas have equal gradients, so their squares are summed within one replica. Experts that are
// spread over several replicas are disjoint there, too.
AxisNames norm_axes(const ParallelDims& dims) {
  AxisNames axes{"pp", "dp_shard", "cp", "tp"};
  if (!fits_in_copy(dims)) axes.insert(axes.begin() + 1, "dp_replicate");
  return axes;
}

}  // namespace

int64_t ParallelDims::world() const {
  return checked_product(std::array{pp, dp_replicate, dp_shard, cp, tp}, "pp × dp × cp × tp");
}

int64_t ParallelDims::shards() const {
  return dp_shard > 1 || shard_cp ? dp_shard * cp : 1;
}

std::string to_string(const ParallelDims& dims) {
  std::vector<std::string> parts;
  for (const auto& [name, member] : kDegrees) {
    if (dims.*member > 1) parts.push_back(concat(name, " ", dims.*member));
  }
  return parts.empty() ? "1 rank" : join(parts, " × ");
}

std::vector<std::string> data_parallel_types() {
  return {"ddp", "fsdp", "hsdp", "zero1"};
}

void set_data_parallel(ParallelDims& dims, const DataParallelOptions& options) {
  const auto& [dp, type, replicas] = options;
  const std::vector<std::string> types = data_parallel_types();
  TSR_CHECK(std::ranges::find(types, type) != types.end(), "dp-type is '", type, "'; choose ",
            join(types, ", "), did_you_mean(type, types));
  TSR_CHECK(dp >= 1, "dp is ", dp, ", but must be at least 1");
  TSR_CHECK(type == "hsdp" || type == "zero1" || replicas == 1, "dp-replicate is ", replicas,
            ", which needs dp-type hsdp or zero1, but it is ", type, "; leave one out");
  TSR_CHECK(replicas >= 1 && dp % replicas == 0, "dp-replicate is ", replicas,
            ", which does not divide dp = ", dp, "; choose a divisor");
  dims.dp_replicate = type == "ddp" ? dp : replicas;
  dims.dp_shard = dp / dims.dp_replicate;
  dims.shard_cp = type != "ddp" && dims.dp_shard == 1 && dims.cp > 1;
}

Plan train_plan(int64_t world, const ParallelDims& dims, const std::vector<int64_t>& cp_sizes) {
  check_degrees(world, dims);
  const Layout ranks = world_layout(dims);
  const Layout experts = expert_layout(dims);
  const AxisNames shards = dims.shards() > 1 ? AxisNames{"dp_shard", "cp"} : AxisNames{};
  const AxisNames data{"dp_replicate", "dp_shard"};
  const AxisNames data_and_context{"dp_replicate", "dp_shard", "cp"};
  std::vector<GroupSpec> groups{spec("pp", ranks, {"pp"}),
                                spec("dp_replicate", ranks, {"dp_replicate"}),
                                spec("dp_shard", ranks, {"dp_shard"}),
                                spec("dp_shard_cp", ranks, shards),
                                spec("cp", ranks, {"cp"}),
                                spec("tp", ranks, {"tp"}),
                                spec("expert_replicate", experts, {"expert_replicate"}),
                                spec("expert_shard", experts, {"expert_shard"}),
                                spec("ep", experts, {"ep"}),
                                spec("etp", experts, {"etp"}),
                                spec("batch", ranks, data),
                                spec("loss", ranks, data_and_context),
                                spec("grad", ranks, data_and_context),
                                spec("expert_grad", experts, {"expert_replicate", "expert_shard"}),
                                spec("norm", ranks, norm_axes(dims)),
                                spec("embedding", ranks, {"pp"}, Ends{})};
  if (!cp_sizes.empty()) {
    check_cp_sizes(cp_sizes, dims.cp);
    groups.push_back(spec("cp_all_to_all", ranks, {"cp"}, Cut{cp_sizes[0]}));
    groups.push_back(spec("cp_ring", ranks, {"cp"}, Cut{cp_sizes[1], cp_sizes[0]}));
  }
  return Plan(world, {{"world", ranks}, {"experts", experts}}, std::move(groups));
}

}  // namespace tessera
