// Properties of NeMo's plans for random sizes.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "tessera/base/text.h"
#include "tessera/plan/nemo/plan.h"

namespace tessera {
namespace {

using nemo::FSDP2Config;
using nemo::MoeMesh;
using nemo::ParallelismSizes;

struct Drawn {
  int64_t world = 1;
  ParallelismSizes sizes;
};

int64_t divisor_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return *rc::gen::elementOf(divisors);
}

// Sizes that fit; ep divides the ranks that the kind of MoE mesh splits.
Drawn drawn(MoeMesh moe) {
  const auto small = [] { return *rc::gen::inRange<int64_t>(1, 4); };
  ParallelismSizes sizes{.tp_size = small(), .pp_size = small(), .cp_size = small()};
  const int64_t shard = small();
  const int64_t replicate = shard == 1 ? 1 : small();
  const int64_t dp = shard * replicate;
  sizes.dp_replicate_size = replicate;
  sizes.ep_size = divisor_of(dp * sizes.cp_size * (moe == MoeMesh::kToday ? sizes.tp_size : 1));
  return {dp * sizes.tp_size * sizes.cp_size * sizes.pp_size, sizes};
}

MoeMesh drawn_kind() {
  return *rc::gen::element(MoeMesh::kDocument, MoeMesh::kToday);
}

RC_GTEST_PROP(NemoPlanProperty, EveryKindOfGroupHoldsEveryRankOnce, ()) {
  const MoeMesh moe = drawn_kind();
  const auto [world, sizes] = drawn(moe);
  const Plan plan = nemo_plan(world, FSDP2Config{}, sizes, {.moe_mesh = moe});
  for (const GroupSpec& spec : plan.specs()) {
    std::set<GlobalRank> seen;
    for (const RankGroup& group : spec.groups.groups()) {
      for (const GlobalRank rank : group) RC_ASSERT(seen.insert(rank).second);
    }
    RC_ASSERT(static_cast<int64_t>(seen.size()) == world);
  }
}

RC_GTEST_PROP(NemoPlanProperty, TheTwoMoeMeshesAgreeWithoutTp, ()) {
  auto [world, sizes] = drawn(MoeMesh::kDocument);
  world /= sizes.tp_size;
  sizes.tp_size = 1;
  const Plan document = nemo_plan(world, FSDP2Config{}, sizes);
  const Plan today = nemo_plan(world, FSDP2Config{}, sizes, {.moe_mesh = MoeMesh::kToday});
  if (sizes.ep_size == 1) return;  // No experts.
  for (int64_t rank = 0; rank < world; ++rank) {
    for (const char* name : {"ep", "ep_shard"}) {
      RC_ASSERT(document.group_of(GlobalRank{rank}, name) ==
                today.group_of(GlobalRank{rank}, name));
    }
  }
}

// Expert groups stay within a pipeline stage, and in the document's mesh also within a tp rank.
RC_GTEST_PROP(NemoPlanProperty, ExpertsStayInTheirStage, ()) {
  const MoeMesh moe = drawn_kind();
  const auto [world, sizes] = drawn(moe);
  if (sizes.ep_size == 1) return;  // No experts.
  const Plan plan = nemo_plan(world, FSDP2Config{}, sizes, {.moe_mesh = moe});
  const Layout& layout = plan.layout("world");
  for (int64_t rank = 0; rank < world; ++rank) {
    const RankGroup group = *plan.group_of(GlobalRank{rank}, "ep");
    RC_ASSERT(static_cast<int64_t>(group.size()) == sizes.ep_size);
    for (const GlobalRank other : group) {
      RC_ASSERT(layout.coordinate(other, "pp") == layout.coordinate(GlobalRank{rank}, "pp"));
      if (moe == MoeMesh::kToday) continue;
      RC_ASSERT(layout.coordinate(other, "tp") == layout.coordinate(GlobalRank{rank}, "tp"));
    }
  }
}

// A list of ranks only renames positions.
RC_GTEST_PROP(NemoPlanProperty, ListedRanksStandWherePositionsStood, ()) {
  const auto [size, sizes] = drawn(MoeMesh::kDocument);
  const int64_t world = size + *rc::gen::inRange<int64_t>(0, 5);
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < world; ++i) ranks.push_back(i);
  for (int64_t i = world - 1; i > 0; --i) {
    std::swap(ranks[static_cast<size_t>(i)],
              ranks[static_cast<size_t>(*rc::gen::inRange<int64_t>(0, i + 1))]);
  }
  ranks.resize(static_cast<size_t>(size));
  const Plan plain = nemo_plan(size, FSDP2Config{}, sizes);
  const Plan listed = nemo_plan(world, FSDP2Config{}, sizes, {.ranks = ranks});
  for (const GroupSpec& spec : plain.specs()) {
    for (int64_t position = 0; position < size; ++position) {
      RankGroup expected = *spec.groups.group_of(GlobalRank{position});
      for (GlobalRank& rank : expected) rank = GlobalRank{ranks[static_cast<size_t>(rank.value)]};
      const GlobalRank renamed{ranks[static_cast<size_t>(position)]};
      RC_ASSERT(listed.group_of(renamed, spec.name) == expected);
    }
  }
}

}  // namespace
}  // namespace tessera
