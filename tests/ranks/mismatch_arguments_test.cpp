// Ranks that make groups with different but valid arguments: all get an error with the argument and
// its values, before anything is made.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tessera/dialect/megatron/parallel_state.h"
#include "tessera/dialect/nemo/mesh_utils.h"
#include "tessera/dialect/olmo/parallel.h"
#include "tests/ranks/fresh_world.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::in_fresh_world;
using testkit::run_ranks;

constexpr int64_t kRanks = 4;

/// The call of the ranks, where rank 1 is `odd`, and the error of all.
struct Case {
  std::string said;
  std::function<void(bool odd)> call;
};

std::string differ(const std::string& call, const std::string& odd, const std::string& usual) {
  return concat("the arguments of ", call, " differ on the ranks of group world: rank 1 has ", odd,
                ", but rank 0 of the group has ", usual);
}

std::vector<int64_t> ends(const std::vector<int64_t>& pipeline) {
  return {pipeline.front(), pipeline.back()};
}
std::vector<int64_t> begin(const std::vector<int64_t>& pipeline) {
  return {pipeline.front()};
}

std::vector<Case> megatron_cases() {
  using megatron::initialize_model_parallel;
  const std::string call = "initialize_model_parallel";
  return {
      {differ(call, "tensor_model_parallel_size 2", "tensor_model_parallel_size 1"),
       [](bool odd) { initialize_model_parallel({.tensor_model_parallel_size = odd ? 2 : 1}); }},
      {differ(call, "order 'tp-cp-ep-pp-dp'", "order 'tp-cp-ep-dp-pp'"),
       [](bool odd) {
         initialize_model_parallel({.pipeline_model_parallel_size = 2,
                                    .order = odd ? "tp-cp-ep-pp-dp" : "tp-cp-ep-dp-pp"});
       }},
      {differ(call, "create_gloo_process_groups false", "create_gloo_process_groups true"),
       [](bool odd) { initialize_model_parallel({.create_gloo_process_groups = !odd}); }},
      // Functions are compared by their results.
      {"the plans differ on the ranks of group world: rank 1 has group EMBEDDING_GROUP",
       [](bool odd) {
         initialize_model_parallel(
             {.pipeline_model_parallel_size = 4, .get_embedding_ranks = odd ? begin : ends});
       }},
  };
}

std::vector<Case> nemo_cases() {
  using nemo::create_device_mesh;
  const std::string call = "create_device_mesh";
  const nemo::FSDP2Config fsdp{.backend = "gloo"};
  return {
      {differ(call, "tp_size 2", "tp_size 1"),
       [=](bool odd) { create_device_mesh(fsdp, {.tp_size = odd ? 2 : 1}); }},
      {differ(call, "strategy ddp", "strategy fsdp2"),
       [=](bool odd) {
         if (odd) create_device_mesh(nemo::DDPConfig{.backend = "gloo"}, {});
         if (!odd) create_device_mesh(fsdp, {});
       }},
      {differ(call, "timeout_minutes 3", "timeout_minutes None"),
       [=](bool odd) {
         nemo::MeshOptions options;
         if (odd) options.timeout_minutes = 3;
         create_device_mesh(fsdp, {}, std::nullopt, options);
       }},
      {differ("_create_moe_mesh", "ep_size 2", "ep_size 4"),
       [](bool odd) { nemo::_create_moe_mesh(1, 1, odd ? 2 : 4, "gloo"); }},
      // Errors of one rank only.
      {"",
       [=](bool odd) {
         create_device_mesh(fsdp, {}, odd ? std::optional<int64_t>(3) : std::nullopt);
       }},
  };
}

std::vector<Case> olmo_cases() {
  using olmo::build_world_mesh;
  const std::string call = "build_world_mesh";
  const olmo::DataParallelConfig fsdp{.name = olmo::DataParallelType::fsdp};
  const olmo::DataParallelConfig hsdp{.name = olmo::DataParallelType::hsdp};
  return {
      {differ(call, "tp.degree 4", "tp.degree 2"),
       [=](bool odd) { build_world_mesh({.dp = fsdp, .tp = {{.degree = odd ? 4 : 2}}}); }},
      {differ("build_expert_parallel_mesh", "degree 2", "degree 4"),
       [](bool odd) { olmo::build_expert_parallel_mesh({.degree = odd ? 2 : 4}); }},
      {differ(call, "NUM_NODES 4", "NUM_NODES 2"),
       [=](bool odd) {
         setenv("NUM_NODES", odd ? "4" : "2", 1);
         build_world_mesh({.dp = hsdp});
       }},
  };
}

void check_cases(const std::vector<Case>& cases) {
  run_ranks(kRanks, [&](World&) {
    for (const Case& one : cases) {
      in_fresh_world([&](World& world) {
        std::string said;
        try {
          one.call(world.rank().value == 1);
        } catch (const ConfigError& error) {
          said = error.what();
        }
        RANK_EXPECT(!said.empty() && contains(said, one.said)) << said << "\n" << one.said;
        barrier(world.group());  // The ranks are still in step.
      });
    }
  });
}

TEST(MismatchedArguments, OfMegatronAreNamed) {
  check_cases(megatron_cases());
}
TEST(MismatchedArguments, OfNemoAreNamed) {
  check_cases(nemo_cases());
}
TEST(MismatchedArguments, OfOlmoAreNamed) {
  check_cases(olmo_cases());
}

// Ranks that are not listed need not call.
TEST(MismatchedArguments, OfListedRanksAreComparedAmongThem) {
  run_ranks(3, [](World&) {
    in_fresh_world([](World& world) {
      const int64_t rank = world.rank().value;
      std::string said;
      try {
        const nemo::MeshOptions options{.ranks = std::vector<int64_t>{2, 0}};
        const nemo::FSDP2Config fsdp{.backend = "gloo"};
        if (rank != 1) {
          nemo::create_device_mesh(fsdp, {.tp_size = rank == 0 ? 1 : 2}, std::nullopt, options);
        }
      } catch (const ConfigError& error) {
        said = error.what();
      }
      RANK_EXPECT(rank == 1 || contains(said,
                                        "rank 2 has tp_size 2, but rank 0 of the group has "
                                        "tp_size 1"))
          << said;
    });
  });
}

}  // namespace
}  // namespace tessera
