// OLMo's meshes on real ranks: the peer's own cases, the members of every group of every accessor,
// and errors on all ranks.
#include "tessera/dialect/olmo/parallel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/plan/olmo/json.h"
#include "tessera/plan/olmo/plan.h"
#include "tests/ranks/fresh_world.h"
#include "tests/testkit/ranks.h"

namespace tessera::olmo {
namespace {

using testkit::in_fresh_world;
using testkit::reduced_sums;
using testkit::run_ranks;
using testkit::sums_of;

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

template <class Exception>
bool refuses(const std::function<void()>& body) {
  try {
    body();
  } catch (const Exception&) {
    return true;
  }
  return false;
}

// ---- The peer's test_build_world_mesh: degrees, 0 if there is no such configuration.

struct PeerCase {
  const char* id = "";
  int64_t tp = 0;
  int64_t cp = 0;
  int64_t pp = 0;
  int64_t ep = 0;
};

template <class Config>
void configure(std::optional<Config>& part, int64_t degree) {
  if (degree != 0) part.emplace().degree = degree;
}

WorldMeshConfig config_of(const PeerCase& one, DataParallelType type) {
  WorldMeshConfig config{.dp = DataParallelConfig{.name = type}};
  configure(config.tp, one.tp);
  configure(config.cp, one.cp);
  configure(config.pp, one.pp);
  configure(config.ep, one.ep);
  return config;
}

void check_degree(bool configured, int64_t degree, const DeviceMesh& mesh, const char* dimension,
                  const std::function<DeviceMesh(const DeviceMesh&)>& accessor) {
  if (!configured) return;
  RANK_EXPECT(mesh.size(dimension) == degree) << dimension;
  RANK_EXPECT(accessor(mesh).shape() == std::vector<int64_t>{degree}) << dimension;
}

void check_peer_mesh(const PeerCase& one, bool hybrid, const DeviceMesh& mesh) {
  const auto degree = [](int64_t given) { return std::max<int64_t>(given, 1); };
  const int64_t dp = mesh.size() / (degree(one.tp) * degree(one.cp) * degree(one.pp));
  const int64_t found =
      hybrid ? mesh.size("dp_replicate") * mesh.size("dp_shard") : mesh.size("dp");
  RANK_EXPECT(found == dp) << one.id;
  check_degree(one.tp != 0, one.tp, mesh, "tp", get_tp_mesh);
  check_degree(one.cp != 0, one.cp, mesh, "cp", get_cp_mesh);
  check_degree(one.pp != 0, one.pp, mesh, "pp", get_pp_mesh);
  check_degree(one.ep != 0, one.ep, mesh, "dp_shard", get_ep_mesh);
  RANK_EXPECT(product(get_dp_mesh(mesh).shape()) == dp) << one.id;
  RANK_EXPECT(product(get_dp_model_mesh(mesh).shape()) == dp * degree(one.cp)) << one.id;
}

void check_peer_case(World& world, const PeerCase& one, DataParallelType type) {
  const WorldMeshConfig config = config_of(one, type);
  const bool hybrid = type == DataParallelType::hsdp;
  const int64_t shards = world.size() / std::max<int64_t>(one.cp, 1) / std::max<int64_t>(one.pp, 1);
  const bool refused = one.ep != 0 && (one.tp != 0 || !hybrid || one.ep != shards);
  if (refused) {
    RANK_EXPECT(refuses<ConfigError>([&] { build_world_mesh(config); })) << one.id;
    return;
  }
  const DeviceMesh mesh = build_world_mesh(config);
  RANK_EXPECT(get_world_mesh() == mesh) << one.id;
  check_peer_mesh(one, hybrid, mesh);
}

void check_peer_cases(int64_t world_size, const std::vector<PeerCase>& cases) {
  run_ranks(world_size, [&](World&) {
    setenv("NUM_NODES", "1", 1);
    for (const PeerCase& one : cases) {
      for (const auto type : {DataParallelType::fsdp, DataParallelType::hsdp}) {
        in_fresh_world([&](World& world) { check_peer_case(world, one, type); });
      }
    }
  });
}

TEST(OlmoPeerRanks, BuildWorldMeshOnTwoRanks) {
  check_peer_cases(2, {{.id = "dp_only"},
                       {.id = "dp_tp", .tp = 2},
                       {.id = "dp_cp", .cp = 2},
                       {.id = "dp_pp", .pp = 2},
                       {.id = "dp_ep", .ep = 2},
                       {.id = "dp_tp_cp", .tp = 1, .cp = 2},
                       {.id = "dp_tp_cp_pp", .tp = 1, .cp = 1, .pp = 2}});
}

TEST(OlmoPeerRanks, BuildWorldMeshOnFourRanks) {
  check_peer_cases(4, {{.id = "dp_cp_ep_pp", .cp = 1, .pp = 2, .ep = 2},
                       {.id = "dp_tp_ep_configerror", .tp = 2, .ep = 2}});
}

// ---- Every accessor of every factorization of eight ranks.

constexpr int64_t kRanks = 8;

// All degrees except dp; the first three are left out if they are 1, unless ones are wanted.
void add_configurations(std::vector<WorldMeshConfig>& configs, bool ones) {
  const std::vector<int64_t> sizes{1, 2, 4, 8};
  for (const int64_t pp : sizes)
    for (const int64_t cp : sizes)
      for (const int64_t tp : sizes) {
        if (pp * cp * tp > kRanks) continue;
        WorldMeshConfig config{.dp = DataParallelConfig{}};
        if (ones || pp > 1) configure(config.pp, pp);
        if (ones || cp > 1) configure(config.cp, cp);
        if (ones || tp > 1) configure(config.tp, tp);
        configs.push_back(config);
        for (int64_t shards = 1; shards <= kRanks / (pp * cp * tp); shards *= 2) {
          config.dp = {.name = DataParallelType::hsdp, .shard_degree = shards};
          configs.push_back(config);
          if (config.tp) continue;
          configs.push_back(config);
          configure(configs.back().ep, shards);
        }
      }
}

// The ranks with this rank's coordinates except in some dimensions, by enumeration.
RankGroup counted_members(const DeviceMesh& mesh, const AxisNames& along) {
  const AxisNames names = mesh.axis_names();
  const std::vector<int64_t> shape = mesh.shape();
  const auto same_elsewhere = [&](int64_t a, int64_t b) {
    for (size_t i = names.size(); i-- > 0; a /= shape[i], b /= shape[i]) {
      const bool free = std::ranges::find(along, names[i]) != along.end();
      if (!free && a % shape[i] != b % shape[i]) return false;
    }
    return true;
  };
  RankGroup members;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    if (same_elsewhere(rank, mesh.get_rank().value)) members.push_back(GlobalRank{rank});
  }
  return members;
}

// The dimensions of the world mesh that form a dimension of a sub-mesh.
AxisNames made_of(const DeviceMesh& world_mesh, const std::string& name) {
  const Layout& layout = world_mesh.layout();
  if (layout.has_axis(name)) return {name};
  const std::string last = layout.has_axis("dp_shard") ? "dp_shard" : "dp";
  return name == "dp_cp" ? AxisNames{last, "cp"} : AxisNames{"dp_replicate", "dp_shard"};
}

class Sweep {
 public:
  Sweep(World& world, const WorldMeshConfig& config)
      : world_(world),
        text_(nlohmann::json(config).dump()),
        mesh_(make_mesh(world, olmo_plan(world.size(), config))),
        hybrid_(config.dp->name == DataParallelType::hsdp) {
    check(mesh_);
    check(get_dp_mesh(mesh_));
    check(get_dp_model_mesh(mesh_));
    check_where(config.tp.has_value(), get_tp_mesh);
    check_where(config.cp.has_value(), get_cp_mesh);
    check_where(config.pp.has_value(), get_pp_mesh);
    check_where(hybrid_, get_ep_mesh);
    check_where(hybrid_, get_dp_shard_mesh);
    check_where(hybrid_, get_dp_replicate_mesh);
    check_group(get_dp_process_group(mesh_), data_dimensions());
    check_group(flatten_mesh(get_dp_mesh(mesh_)).get_group(), data_dimensions());
    check_stage(config.pp.has_value());
  }

 private:
  using Accessor = DeviceMesh (*)(const DeviceMesh&);

  AxisNames data_dimensions() const {
    return hybrid_ ? AxisNames{"dp_replicate", "dp_shard"} : AxisNames{"dp"};
  }

  void check_where(bool given, Accessor accessor) {
    if (given) return check(accessor(mesh_));
    RANK_EXPECT(refuses<ConfigError>([&] { accessor(mesh_); })) << text_;
  }

  void check_stage(bool given) {
    if (!given) {
      RANK_EXPECT(refuses<ConfigError>([&] { get_pp_stage_mesh(mesh_); })) << text_;
      return;
    }
    const DeviceMesh stage = get_pp_stage_mesh(mesh_);
    check(stage);
    check(get_dp_mesh(stage));
    check(get_dp_model_mesh(stage));
    if (stage.layout().has_axis("tp")) check(get_tp_mesh(stage));
    check_group(flatten_mesh(stage).get_group(), stage.axis_names());
  }

  // Every dimension of a sub-mesh.
  void check(const DeviceMesh& mesh) {
    for (const std::string& name : mesh.axis_names()) {
      check_group(mesh.get_group(name), made_of(mesh_, name));
    }
  }

  // Has the right members, in order, and reaches them.
  void check_group(const Group& group, const AxisNames& along) {
    const RankGroup members = counted_members(mesh_, along);
    RANK_EXPECT(std::ranges::equal(group.ranks(), members)) << text_ << ": " << group.name();
    RANK_EXPECT(reduced_sums(world_, group) == sums_of(members)) << text_ << ": " << group.name();
  }

  World& world_;
  const std::string text_;
  const DeviceMesh mesh_;
  const bool hybrid_;
};

TEST(OlmoRanks, EveryAccessorReachesItsMembers) {
  run_ranks(kRanks, [](World& world) {
    std::vector<WorldMeshConfig> configs;
    add_configurations(configs, /*ones=*/false);
    add_configurations(configs, /*ones=*/true);
    for (const WorldMeshConfig& config : configs) Sweep(world, config);
    RANK_EXPECT(configs.size() == 130) << configs.size();
  });
}

TEST(OlmoRanks, ExpertMeshesReachTheirMembers) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      for (const int64_t degree : {1, 2, 4, 8}) {
        const DeviceMesh mesh = build_expert_parallel_mesh({.degree = degree});
        for (const AxisNames& along : {AxisNames{"ep_replicate"}, AxisNames{"ep_shard"}}) {
          RANK_EXPECT(reduced_sums(world, mesh.get_group(along[0])) ==
                      sums_of(counted_members(mesh, along)));
        }
        RANK_EXPECT(reduced_sums(world, get_dp_process_group(mesh)).bits == 255);
      }
    });
  });
}

// ---- Pipelines.

// The last stage has two outputs: the sum and the difference of its inputs and a parameter.
TEST(OlmoRanks, StepsHandEveryOutputToTheLossAndBack) {
  run_ranks(2, [](World& world) {
    const DeviceMesh pp_mesh = init_device_mesh(world, {2}, {"pp"});
    const bool last = world.rank() == 1;
    const at::Tensor weight = at::ones({1}).requires_grad_();
    const auto forward = [&](const Tensors& inputs, const StagePass&) {
      const at::Tensor& x = inputs.at(0);
      return last ? Tensors{x + weight, x - weight} : Tensors{x * weight};
    };
    const auto loss_fn = [](const Tensors& outputs, const at::Tensor& target) {
      return (outputs.at(0) * 2 + outputs.at(1) - target).sum();
    };
    PipelineSchedule schedule({}, {{.index = world.rank().value, .forward = forward}}, pp_mesh,
                              PipelineScheduleType::gpipe, loss_fn);
    RANK_EXPECT(schedule.schedule_name() == PipelineScheduleType::gpipe);
    const auto [outputs, losses] = schedule.step({at::full({2, 1}, 3.0)}, at::ones({2, 1}));
    RANK_EXPECT(outputs.size() == (last ? 2U : 0U));
    if (!last) return;
    RANK_EXPECT(outputs[0].equal(at::full({2, 1}, 4.0)) && outputs[1].equal(at::full({2, 1}, 2.0)));
    RANK_EXPECT(losses.equal(at::full({2}, 9.0)));
    RANK_EXPECT(weight.grad().item<double>() == 1) << "2 by the sum, less 1 by the difference";
  });
}

// ---- Errors.

// No rank has a mesh afterwards, and the next one works.
void check_refused(World& world, const WorldMeshConfig& config, const std::string& device = "cpu") {
  RANK_EXPECT(refuses<ConfigError>([&] { build_world_mesh(config, device); }));
  RANK_EXPECT(!get_world_mesh().has_value());
  const DeviceMesh whole = build_world_mesh();
  RANK_EXPECT(reduced_sums(world, whole.get_group()).bits == 255);
}

TEST(OlmoRanks, AllRanksRefuseAndTheNextMeshWorks) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      const bool odd_one_out = world.rank().value == 5;
      const DataParallelConfig hsdp{.name = DataParallelType::hsdp};
      check_refused(world, {.dp = hsdp, .tp = {{.degree = 3}}});
      if (!at::hasCUDA()) check_refused(world, {.dp = hsdp}, "cuda");
      setenv("NUM_NODES", odd_one_out ? "3" : "2", 1);  // Refused by one rank only.
      check_refused(world, {.dp = hsdp});
      setenv("NUM_NODES", odd_one_out ? "4" : "2", 1);  // Refused by none, but the meshes differ.
      check_refused(world, {.dp = hsdp});
      setenv("NUM_NODES", "2", 1);
      check_refused(world, {.dp = hsdp, .tp = {{.degree = odd_one_out ? 2 : 4}}});
      const DeviceMesh mesh = build_world_mesh({.dp = hsdp});
      RANK_EXPECT(reduced_sums(world, get_dp_process_group(mesh)).bits == 255);
      RANK_EXPECT(refuses<StateError>([&] { build_world_mesh({.dp = hsdp}); }));
      RANK_EXPECT(get_world_mesh() == mesh);
    });
  });
}

}  // namespace
}  // namespace tessera::olmo
