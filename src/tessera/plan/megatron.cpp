#include "tessera/plan/megatron.h"

#include <limits>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/topology/rank_generator.h"

namespace tessera {
namespace {

// world / product, with all the factors in the message where it does not divide.
int64_t data_parallel_size(int64_t world, const std::vector<AxisSize>& factors) {
  std::vector<int64_t> sizes;
  std::vector<std::string> names;
  std::vector<std::string> shown;
  for (const auto& [name, size] : factors) {
    TSR_CHECK(size > 0, "size ", size, " of ", name, " is not positive; sizes start at 1");
    sizes.push_back(size);
    names.push_back(name);
    shown.push_back(concat(name, "=", size));
  }
  const int64_t product = checked_product(sizes, "the product of the parallel sizes");
  std::vector<int64_t> nearest;
  const int64_t below = world / product * product;
  if (below > 0) nearest.push_back(below);
  if (below <= std::numeric_limits<int64_t>::max() - product) nearest.push_back(below + product);
  TSR_CHECK(world % product == 0, "world size ", world, " is not divisible by ", join(names, "·"),
            " = ", product, " (", join(shown, ", "),
            "); nearest world sizes: ", join(nearest, ", "));
  return world / product;
}

// Both layouts must agree on who forms a pipeline, or a stage would have two neighbours.
void check_pipelines(std::string_view order, const Layout& decoder, const Layout& expert) {
  const int64_t dp = decoder.axis("dp").size();
  const int64_t edp = expert.axis("dp").size();
  TSR_CHECK(to_lower(order).ends_with("pp") || decoder.axis("pp").size() == 1 || dp == edp,
            "order '", order, "' does not end with pp although pp=", decoder.axis("pp").size(),
            " and the data-parallel sizes differ (decoder ", dp, ", experts ", edp,
            "); put pp last, or choose ep and etp so that they agree");
  TSR_CHECK(decoder.axis("pp") == expert.axis("pp"), "order '", order,
            "' gives the decoder other pipelines than the experts (", decoder, " and ", expert,
            "); put pp last, or make the product of the sizes before pp equal");
}

std::vector<GroupKind> make_kinds(const Layout& decoder, const Layout& expert) {
  const Members ends = Members::kEnds;
  const Members first = Members::kFirst;
  return {
      {"DATA_PARALLEL_GROUP_WITH_CP", "dp-cp", decoder, {"dp", "cp"}},
      {"DATA_PARALLEL_GROUP", "dp", decoder, {"dp"}},
      {"CONTEXT_PARALLEL_GROUP", "cp", decoder, {"cp"}},
      {"MODEL_PARALLEL_GROUP", "tp-pp", decoder, {"tp", "pp"}},
      {"TENSOR_MODEL_PARALLEL_GROUP", "tp", decoder, {"tp"}},
      {"PIPELINE_MODEL_PARALLEL_GROUP", "pp", decoder, {"pp"}},
      {"EMBEDDING_GROUP", "pp ends", decoder, {"pp"}, ends},
      {"POSITION_EMBEDDING_GROUP", "pp first", decoder, {"pp"}, first},
      {"TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "tp-dp-cp", decoder, {"tp", "dp", "cp"}},
      {"TENSOR_AND_DATA_PARALLEL_GROUP", "tp-dp", decoder, {"tp", "dp"}},
      {"TENSOR_AND_CONTEXT_PARALLEL_GROUP", "tp-cp", decoder, {"tp", "cp"}},
      {"EXPERT_MODEL_PARALLEL_GROUP", "ep", expert, {"ep"}},
      {"EXPERT_TENSOR_PARALLEL_GROUP", "etp", expert, {"tp"}},
      {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "etp-ep", expert, {"tp", "ep"}},
      {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", "etp-ep-pp", expert, {"tp", "ep", "pp"}},
      {"EXPERT_DATA_PARALLEL_GROUP", "edp", expert, {"dp"}},
      {"INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", "world", expert, expert.axis_names()},
  };
}

}  // namespace

MegatronGroups megatron_groups(const MegatronSizes& sizes) {
  const auto [world, tp, pp, cp, ep, given_etp, order] = sizes;
  const int64_t etp = given_etp.value_or(tp);
  TSR_CHECK(world > 0, "world size ", world, " is not positive; a world has at least 1 rank");
  const int64_t dp = data_parallel_size(world, {{"tp", tp}, {"cp", cp}, {"pp", pp}});
  const int64_t edp = data_parallel_size(world, {{"etp", etp}, {"ep", ep}, {"pp", pp}});
  Layout decoder = RankGenerator(tp, 1, dp, pp, cp, order).layout();
  Layout expert = RankGenerator(etp, ep, edp, pp, 1, order).layout();
  check_pipelines(order, decoder, expert);
  std::vector<GroupKind> kinds = make_kinds(decoder, expert);
  return {std::move(decoder), std::move(expert), std::move(kinds)};
}

}  // namespace tessera
