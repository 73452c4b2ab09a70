// Meshes on real ranks: sums over their groups, and ranks outside of the mesh.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/comm/collectives.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/mesh/realize.h"
#include "tessera/plan/train_plan.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/variable.h"

namespace tessera {
namespace {

using testkit::run_ranks;

int64_t sum_of(const RankGroup& ranks) {
  int64_t sum = 0;
  for (const GlobalRank rank : ranks) sum += rank.value;
  return sum;
}

int64_t reduced_rank(const DeviceMesh& mesh, const Group& group) {
  return all_reduce(at::full({1}, mesh.get_rank().value, at::kLong), group).wait().item<int64_t>();
}

// The ranks in the result of an all_gather over the group, in its order.
RankGroup gathered_ranks(const DeviceMesh& mesh, const Group& group) {
  const at::Tensor all = all_gather(at::full({1}, mesh.get_rank().value, at::kLong), group).wait();
  RankGroup ranks;
  for (int64_t i = 0; i < all.numel(); ++i) ranks.push_back(GlobalRank{all[i].item<int64_t>()});
  return ranks;
}

// Sums and gathers over every axis give its members, in the order of the axis.
void check_axes(const DeviceMesh& mesh) {
  for (const std::string& axis : mesh.axis_names()) {
    const RankGroup members = mesh.layout().group_of(mesh.get_rank(), {axis});
    RANK_EXPECT(reduced_rank(mesh, mesh.get_group(axis)) == sum_of(members)) << axis << mesh;
    RANK_EXPECT(gathered_ranks(mesh, mesh.get_group(axis)) == members) << axis << mesh;
    RANK_EXPECT(members[static_cast<size_t>(mesh.get_local_rank(axis).value)] == mesh.get_rank())
        << axis << mesh;
  }
}

// Every subset of at least two axes, as the bits of a number, flattened.
void check_flattened(const DeviceMesh& mesh) {
  const AxisNames names = mesh.axis_names();
  for (unsigned subset = 1; subset < (1U << names.size()); ++subset) {
    AxisNames chosen;
    for (size_t i = 0; i < names.size(); ++i) {
      if ((subset >> i & 1U) != 0) chosen.insert(chosen.begin(), names[i]);
    }
    if (chosen.size() < 2) continue;
    const DeviceMesh flat = mesh.slice(chosen).flatten();
    check_axes(flat);
    const std::string name = flat.axis_names()[0];
    RANK_EXPECT(sum_of(mesh.layout().group_of(mesh.get_rank(), chosen)) ==
                reduced_rank(mesh, mesh.get_group(name)))
        << name << mesh;
  }
}

TEST(Mesh, EveryAxisAndFlattenedSubMeshAddsUp) {
  run_ranks(8, [](World& world) {
    const std::vector<Layout> layouts{
        Layout::row_major({{"dp", 8}}),
        Layout::row_major({{"pp", 2}, {"dp", 2}, {"tp", 2}}),
        Layout::row_major({{"pp", 1}, {"dp", 4}, {"cp", 1}, {"tp", 2}}),
        Layout::first_fastest({{"tp", 4}, {"pp", 2}}),
        Layout::from_ranks({{"dp", 4}, {"tp", 2}}, to_ranks({7, 0, 5, 2, 3, 4, 1, 6})),
    };
    for (const Layout& layout : layouts) {
      const DeviceMesh mesh(world, layout);
      check_axes(mesh);
      check_flattened(mesh);
    }
  });
}

TEST(Mesh, SplitsAndConcatenationsAddUp) {
  run_ranks(8, [](World& world) {
    const DeviceMesh mesh(world, Layout::row_major({{"dp", 4}, {"tp", 2}}));
    const DeviceMesh cut = mesh.split("dp", {{"replicate", 2}, {"shard", 2}});
    check_axes(cut);
    const std::array parts{mesh.slice({"tp"}), cut.slice({"replicate"})};
    const DeviceMesh both = DeviceMesh::concatenate(parts);
    check_axes(both);
    check_axes(both.flatten());
    const int64_t rank = world.rank().value;
    const int64_t first = rank / 2 % 2 * 2;  // First rank of the shard index and its tp pair.
    RANK_EXPECT(both.layout().ranks() == to_ranks({first, first + 4, first + 1, first + 5}))
        << both;
  });
}

// The peer sorts groups, so there a gather on an unsorted mesh is not in the order of the
// coordinates.
TEST(Mesh, AnUnsortedListIsGatheredInItsOrder) {
  run_ranks(8, [](World& world) {
    const DeviceMesh mesh(world, Layout::from_ranks({{"dp", 3}}, to_ranks({7, 5, 3})));
    RANK_EXPECT(mesh.is_member() == (mesh.contains(world.rank())));
    if (!mesh.is_member()) return;
    RANK_EXPECT(gathered_ranks(mesh, mesh.get_group()) == to_ranks({7, 5, 3}));
    RANK_EXPECT(mesh.get_local_rank().value == (7 - world.rank().value) / 2);
  });
}

TEST(Mesh, FromExistingGroups) {
  run_ranks(8, [](World& world) {
    const Layout layout = Layout::row_major({{"dp", 2}, {"tp", 4}});
    const Group dp = world.group(layout.group_of(world.rank(), {"dp"}), {.lane = Lane::kReduce});
    const Group tp = world.group(layout.group_of(world.rank(), {"tp"}));
    const DeviceMesh mesh = DeviceMesh::from_groups(world, layout, {dp, tp});
    RANK_EXPECT(&mesh.get_group("dp").state() == &dp.state());
    check_axes(mesh);
    check_axes(mesh.flatten("all"));
    const DeviceMesh line = DeviceMesh::from_group(world, tp, "line");
    check_axes(line);
    RANK_EXPECT(line.get_group() == mesh.get_group("tp"));
  });
}

// Ranks 0 and 7 are outside of the mesh; they make the same calls, but the others do not wait.
TEST(Mesh, RanksOutsideAreNoMembers) {
  run_ranks(8, [](World& world) {
    const Layout layout = Layout::from_ranks({{"dp", 3}, {"tp", 2}}, to_ranks({1, 2, 3, 4, 5, 6}));
    const bool inside = world.rank().value % 7 != 0;
    const DeviceMesh mesh(world, layout);
    const DeviceMesh flat = mesh.flatten("all");
    RANK_EXPECT(mesh.is_member() == inside);
    RANK_EXPECT(flat.is_member() == inside);
    RANK_EXPECT(mesh.get_coordinate().has_value() == inside);
    if (inside) {
      check_axes(mesh);
      RANK_EXPECT(reduced_rank(flat, flat.get_group()) == 21);
    } else {
      EXPECT_THROW((void)mesh.get_group("tp"), StateError);
      EXPECT_THROW((void)flat.get_group(), StateError);
      EXPECT_THROW((void)mesh.slice({"tp"}), StateError);
    }
  });
}

// All ranks throw the same errors, so that none waits: the next collective works.
TEST(Mesh, AllRanksRefuse) {
  run_ranks(8, [](World& world) {
    const DeviceMesh mesh(world, Layout::row_major({{"dp", 4}, {"tp", 2}}));
    (void)mesh.flatten("x");
    const auto refused = [](const auto& body) {
      try {
        body();
      } catch (const ConfigError&) {
        return true;
      }
      return false;
    };
    RANK_EXPECT(refused([&] { DeviceMesh(world, Layout::row_major({{"dp", 9}})); }));
    RANK_EXPECT(refused([&] {
      const RankGroup twice = to_ranks({0, 1, 2, 1});
      DeviceMesh(world, Layout::from_ranks({{"dp", 2}, {"tp", 2}}, twice));
    }));
    RANK_EXPECT(refused([&] { (void)mesh.slice({"tp"}).flatten("x"); }));
    RANK_EXPECT(refused([&] { (void)mesh.slice({"dp", "x"}); }));
    RANK_EXPECT(refused([&] { (void)mesh.split("dp", {{"a", 3}, {"b", 2}}); }));
    RANK_EXPECT(refused([&] { DeviceMesh(world, mesh.layout(), {{"pp", {}}}); }));
    RANK_EXPECT(reduced_rank(mesh, world.group()) == 28);
  });
}

TEST(Mesh, IsDestroyedAndMadeAgain) {
  run_ranks(8, [](World& world) {
    const Layout layout = Layout::row_major({{"pp", 2}, {"dp", 2}, {"tp", 2}});
    for (int round = 0; round < 4; ++round) {
      World again =
          World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)});
      const DeviceMesh mesh(again, layout);
      const DeviceMesh flat = mesh.slice({"pp", "tp"}).flatten("model");
      check_axes(mesh);
      check_axes(flat);
      again.close();
      EXPECT_THROW((void)reduced_rank(mesh, mesh.get_group("tp")), Error);
      EXPECT_THROW((void)mesh.slice({"dp", "tp"}).flatten("late"), StateError);
    }
    // Within one world as well: a destroyed mesh leaves its communicators to the next.
    for (int round = 0; round < 4; ++round) {
      const DeviceMesh mesh(world, layout, {{"dp", {.lane = Lane::kReduce}}});
      check_axes(mesh);
    }
  });
}

// All ranks take part in a split, so that one which does not would leave the others waiting.
TEST(Realize, RefusesAPlanWhoseGroupsOnlySomeRanksWouldSplit) {
  run_ranks(2, [](World& world) {
    std::optional<testkit::Variable> split;
    if (world.rank().value == 1) split.emplace("TESSERA_NCCL_SPLIT", "1");
    const World other =
        World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)});
    RANK_EXPECT(other.splits_nccl() == (world.rank().value == 1));
    std::string refused;
    try {
      realize(train_plan(2, {.dp_replicate = 2}), other);
    } catch (const ConfigError& error) {
      refused = error.what();
    }
    RANK_EXPECT(testkit::contains(
        refused, "the plans differ on the ranks of group world: rank 1 has group "))
        << refused;
    RANK_EXPECT(testkit::contains(refused, ", split, but rank 0 of the group has group "))
        << refused;
  });
}

}  // namespace
}  // namespace tessera
