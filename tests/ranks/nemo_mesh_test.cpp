// NeMo's device meshes on eight real ranks: the members of every axis, flattened axis, MoE axis and
// sub-mesh of the helpers.
#include "tessera/dialect/nemo/mesh_utils.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/ranks/fresh_world.h"
#include "tests/testkit/ranks.h"

namespace tessera::nemo {
namespace {

using testkit::in_fresh_world;
using testkit::reduced_sums;
using testkit::run_ranks;
using testkit::sums_of;

constexpr int64_t kRanks = 8;

/// The members of a group, found by trying every rank; the last size varies fastest.
class Grid {
 public:
  Grid(std::vector<int64_t> sizes, std::vector<int64_t> ranks)
      : sizes_(std::move(sizes)), ranks_(std::move(ranks)) {}

  // The ranks that only differ from this one in these sizes, by position.
  RankGroup line(int64_t rank, const std::vector<size_t>& along) const {
    const auto mine = std::ranges::find(ranks_, rank) - ranks_.begin();
    RankGroup members;
    for (size_t position = 0; position < ranks_.size(); ++position) {
      if (agree(mine, static_cast<int64_t>(position), along))
        members.push_back(GlobalRank{ranks_[position]});
    }
    return members;
  }

 private:
  bool agree(int64_t a, int64_t b, const std::vector<size_t>& along) const {
    for (size_t i = sizes_.size(); i-- > 0; a /= sizes_[i], b /= sizes_[i]) {
      if (std::ranges::find(along, i) == along.end() && a % sizes_[i] != b % sizes_[i])
        return false;
    }
    return true;
  }

  std::vector<int64_t> sizes_;
  std::vector<int64_t> ranks_;
};

/// The ranks of a mesh in row-major order.
std::vector<int64_t> first_ranks(int64_t count) {
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < count; ++i) ranks.push_back(i);
  return ranks;
}

struct Case {
  ParallelismSizes sizes;
  int64_t shard = 1;
  std::vector<int64_t> ranks = first_ranks(kRanks);

  int64_t replicate() const { return sizes.dp_replicate_size.value_or(1); }
  Grid grid() const {
    return {{sizes.pp_size, replicate(), shard, sizes.cp_size, sizes.tp_size}, ranks};
  }
  // The experts' (pp, ep_shard, ep, tp), or (pp, ep_shard, ep, 1) if tp belongs to them.
  Grid experts(MoeMesh moe) const {
    const int64_t tp = moe == MoeMesh::kDocument ? sizes.tp_size : 1;
    const int64_t shared = static_cast<int64_t>(ranks.size()) / sizes.pp_size / tp;
    return {{sizes.pp_size, shared / sizes.ep_size, sizes.ep_size, tp}, ranks};
  }
  MeshOptions options(MoeMesh moe = MoeMesh::kDocument) const {
    MeshOptions options{.moe_mesh = moe};
    if (ranks != first_ranks(kRanks)) options.ranks = ranks;
    return options;
  }
  std::string text() const {
    return concat("pp ", sizes.pp_size, " rep ", replicate(), " shard ", shard, " cp ",
                  sizes.cp_size, " tp ", sizes.tp_size, " ep ", sizes.ep_size, " ranks ",
                  join(ranks, ","), " ");
  }
};

// Every layout of `count` ranks, with every number of expert ranks up to that.
std::vector<Case> factorisations(int64_t count, const std::vector<int64_t>& ranks) {
  std::vector<Case> all;
  const std::vector<int64_t> sizes{1, 2, 4, 8};
  for (const int64_t pp : sizes)
    for (const int64_t replicate : sizes)
      for (const int64_t shard : sizes)
        for (const int64_t cp : sizes)
          for (const int64_t ep : sizes) {
            const int64_t without_tp = pp * replicate * shard * cp;
            if (count % without_tp != 0 || count / pp % ep != 0) continue;
            if (replicate > 1 && shard == 1) continue;  // Refused.
            all.push_back({{.dp_replicate_size = replicate,
                            .tp_size = count / without_tp,
                            .pp_size = pp,
                            .cp_size = cp,
                            .ep_size = ep},
                           shard,
                           ranks});
          }
  return all;
}

void check_group(const World& world, const Group& group, const RankGroup& members,
                 const std::string& what) {
  RANK_EXPECT(std::ranges::equal(group.ranks(), members)) << what << group.name();
  RANK_EXPECT(reduced_sums(world, group) == sums_of(members)) << what << group.name();
}

enum Place : size_t { kPp, kReplicate, kShard, kCp, kTp };

struct Axes {
  std::string name;
  std::vector<size_t> places;
};

// Every axis of the device mesh, own and flattened, at the positions of Case::grid.
const std::vector<Axes> kAxes{{"pp", {kPp}},
                              {"dp_replicate", {kReplicate}},
                              {"dp_shard", {kShard}},
                              {"cp", {kCp}},
                              {"tp", {kTp}},
                              {"dp", {kReplicate, kShard}},
                              {"dp_shard_cp", {kShard, kCp}},
                              {"dp_cp", {kReplicate, kShard, kCp}}};

std::vector<size_t> places_of(const AxisNames& names) {
  std::vector<size_t> places;
  for (const std::string& name : names) {
    const auto axes = std::ranges::find(kAxes, name, &Axes::name);
    places.insert(places.end(), axes->places.begin(), axes->places.end());
  }
  return places;
}

void check_axes(const World& world, const DeviceMesh& mesh, const Case& one) {
  const Grid grid = one.grid();
  const int64_t rank = world.rank().value;
  for (const auto& [name, places] : kAxes) {
    check_group(world, mesh.get_group(name), grid.line(rank, places), one.text());
    check_group(world, get_flat_mesh(mesh, name).get_group(), grid.line(rank, places), one.text());
  }
}

// A sub-mesh reaches its members axis by axis, and all of them if it is flattened.
void check_submesh(const World& world, const DeviceMesh& submesh, const Case& one) {
  const int64_t rank = world.rank().value;
  const AxisNames names = submesh.axis_names();
  for (const std::string& name : names) {
    check_group(world, submesh.get_group(name), one.grid().line(rank, places_of({name})),
                one.text() + "sub ");
  }
  check_group(world, submesh.flatten().get_group(), one.grid().line(rank, places_of(names)),
              one.text() + "flattened ");
}

void check_submeshes(const World& world, const DeviceMesh& mesh, const Case& one) {
  const std::vector<AxisNames> all{{"dp_replicate", "dp_shard_cp"},
                                   {"dp", "cp"},
                                   {"dp_cp", "tp"},
                                   {"dp", "tp"},
                                   {"pp", "dp"},
                                   {"dp_shard", "tp"},
                                   {"pp", "dp_cp", "tp"}};
  for (const AxisNames& names : all) check_submesh(world, get_submesh(mesh, names), one);
  check_submesh(world, get_fsdp_dp_mesh(mesh), one);
}

void check_ring_and_ulysses(const World& world, const DeviceMesh& mesh, const Case& one) {
  const auto& [sizes, shard, ranks] = one;
  for (const int64_t ring : {1, 2, 4}) {
    if (sizes.cp_size % ring != 0) continue;
    const int64_t ulysses = sizes.cp_size / ring;
    const DeviceMesh cut = create_ring_ulysses_mesh(mesh, ring, ulysses);
    const int64_t outside = sizes.pp_size * one.replicate() * shard;
    const Grid grid({outside, ring, ulysses, sizes.tp_size}, ranks);
    check_group(world, cut.get_group("ring"), grid.line(world.rank().value, {1}), one.text());
    check_group(world, cut.get_group("ulysses"), grid.line(world.rank().value, {2}), one.text());
  }
}

bool fits(const Case& one, MoeMesh moe) {
  const int64_t tp = moe == MoeMesh::kDocument ? one.sizes.tp_size : 1;
  return static_cast<int64_t>(one.ranks.size()) / one.sizes.pp_size / tp % one.sizes.ep_size == 0;
}

// Both kinds of MoE mesh, if the sizes fit; otherwise all ranks throw.
void check_experts(const World& world, const Case& one, MoeMesh moe) {
  const auto made = [&] {
    return create_device_mesh(FSDP2Config{}, one.sizes, std::nullopt, one.options(moe));
  };
  if (!fits(one, moe)) {
    EXPECT_THROW((void)made(), ConfigError) << one.text();
    return;
  }
  const auto [mesh, experts] = made();
  RANK_EXPECT(experts.has_value() == (one.sizes.ep_size > 1)) << one.text();
  if (!experts || !experts->is_member()) return;
  const Grid grid = one.experts(moe);
  const std::vector<Axes> axes{{"pp", {0}}, {"ep_shard", {1}}, {"ep", {2}}};
  for (const auto& [name, places] : axes) {
    if (name == "pp" && moe == MoeMesh::kToday) continue;
    check_group(world, experts->get_group(name), grid.line(world.rank().value, places),
                one.text() + "experts ");
  }
}

void check(const World& world, const Case& one) {
  if (one.sizes.ep_size == 1) {
    const DeviceMesh mesh =
        *create_device_mesh(FSDP2Config{}, one.sizes, std::nullopt, one.options()).first;
    if (!mesh.is_member()) return;
    check_axes(world, mesh, one);
    check_submeshes(world, mesh, one);
    check_ring_and_ulysses(world, mesh, one);
  } else {
    check_experts(world, one, MoeMesh::kDocument);
    check_experts(world, one, MoeMesh::kToday);
  }
}

TEST(NemoMeshRanks, EveryFactorisationReachesItsMembers) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      const std::vector<Case> all = factorisations(kRanks, first_ranks(kRanks));
      RANK_EXPECT(all.size() > 80) << all.size();
      for (const Case& one : all) check(world, one);
    });
  });
}

TEST(NemoMeshRanks, UnsortedListsAndSubsetsReachTheirMembers) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      for (const Case& one : factorisations(kRanks, {7, 0, 5, 2, 3, 4, 1, 6})) check(world, one);
      for (const Case& one : factorisations(4, {6, 2, 5, 1})) check(world, one);
      for (const Case& one : factorisations(4, {4, 5, 6, 7})) check(world, one);
      RANK_EXPECT(reduced_sums(world, world.group()) == sums_of(to_ranks(first_ranks(kRanks))));
    });
  });
}

// Two models on two halves of the world: each half makes its own mesh, the others only call.
TEST(NemoMeshRanks, HalvesOfTheWorldWorkSideBySide) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      const bool upper = world.rank().value >= 4;
      const ParallelismSizes sizes{.tp_size = 2};
      const MeshOptions low{.ranks = std::vector<int64_t>{0, 1, 2, 3}};
      const MeshOptions high{.ranks = std::vector<int64_t>{4, 5, 6, 7}};
      const DeviceMesh first = *create_device_mesh(FSDP2Config{}, sizes, 4, low).first;
      const DeviceMesh second = *create_device_mesh(FSDP2Config{}, sizes, 4, high).first;
      RANK_EXPECT(first.is_member() != second.is_member());
      const Case mine{sizes, 2, upper ? *high.ranks : *low.ranks};
      check_axes(world, upper ? second : first, mine);
    });
  });
}

TEST(NemoMeshRanks, MegatronFSDPReachesItsMembers) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      for (const int64_t cp : {1, 2, 4, 8})
        for (const int64_t tp : {1, 2, 4, 8}) {
          if (cp * tp > kRanks) continue;
          const ParallelismSizes sizes{.tp_size = tp, .cp_size = cp};
          const DeviceMesh mesh = *create_device_mesh(MegatronFSDPConfig{}, sizes, kRanks).first;
          const Grid grid({kRanks / cp / tp, cp, tp}, first_ranks(kRanks));
          const std::vector<Axes> axes{{"dp", {0}}, {"cp", {1}}, {"tp", {2}}, {"dp_cp", {0, 1}}};
          for (const auto& [name, places] : axes) {
            if (name == "dp_cp" && cp == 1) continue;
            check_group(world, mesh.get_group(name), grid.line(world.rank().value, places),
                        concat("cp ", cp, " tp ", tp, " "));
          }
        }
    });
  });
}

// All ranks throw the same errors, so that none waits: the next mesh works.
TEST(NemoMeshRanks, AllRanksRefuse) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      struct Refused {
        DistributedConfig config;
        ParallelismSizes sizes;
        std::optional<int64_t> world_size = std::nullopt;
        MeshOptions options = {};
      };
      const std::vector<Refused> all{
          {FSDP2Config{}, {.tp_size = 3}},
          {FSDP2Config{}, {.dp_size = 2, .tp_size = 2}},
          {FSDP2Config{}, {.dp_replicate_size = 8}},
          {FSDP2Config{}, {.ep_size = 3}},
          {FSDP2Config{}, {}, 4},
          {FSDP2Config{}, {}, 3, {.ranks = std::vector<int64_t>{0, 1, 1}}},
          {FSDP2Config{}, {}, 2, {.ranks = std::vector<int64_t>{0, 8}}},
          {MegatronFSDPConfig{}, {.pp_size = 2}},
          {DDPConfig{}, {.tp_size = 2}},
      };
      const Case next{{.tp_size = 2}, 4};
      for (const auto& [config, sizes, world_size, options] : all) {
        EXPECT_THROW((void)create_device_mesh(config, sizes, world_size, options), ConfigError);
        check(world, next);
      }
      const DeviceMesh mesh = *create_device_mesh(FSDP2Config{}, {.cp_size = 2}, kRanks).first;
      EXPECT_THROW((void)create_ring_ulysses_mesh(mesh, 2, 2), ConfigError);
      EXPECT_THROW((void)get_submesh(mesh, {"dp", "ep"}), ConfigError);
      check(world, next);
    });
  });
}

}  // namespace
}  // namespace tessera::nemo
