// The OLMo dialect's distributed.utils: the peer's own tests, and cases that its tables lack.
#include "tessera/dialect/olmo/utils.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tessera/base/error.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::run_ranks;
using Words = std::pair<std::string, std::string>;

// Makes the test's world the current one, which the dialect's functions use.
void as_current(World& world, const std::function<void()>& body) {
  World::make_current(std::move(world));
  body();
  World* const current = World::current();
  World back = std::move(*current);
  World::clear_current();
  world = std::move(back);
}

TEST(OlmoUtils, BroadcastObject) {
  run_ranks(2, [](World& world) {
    as_current(world, [] {
      const Words mine = olmo::get_rank() == 0 ? Words{"abc", "def"} : Words{"abc", "abc"};
      RANK_EXPECT(olmo::broadcast_object(mine) == Words("abc", "def"));
    });
  });
}

TEST(OlmoUtils, DoNAtATimeCallsEveryRankOnce) {
  for (const auto& [n, world] : {std::pair<int64_t, int64_t>{2, 1}, {8, 64}}) {
    std::set<int64_t> called;
    for (int64_t rank = 0; rank < world; ++rank) {
      olmo::do_n_at_a_time([&, r = rank] { EXPECT_TRUE(called.insert(r).second); },
                           {.n = n, .world_size = world, .local_rank = rank});
    }
    EXPECT_EQ(static_cast<int64_t>(called.size()), world);
  }
  EXPECT_THROW(olmo::turns_of({.n = 0, .world_size = 4}), ConfigError);
}

TEST(OlmoUtils, ObjectsOfAnyLengthAndEveryNumber) {
  run_ranks(3, [](World& world) {
    as_current(world, [] {
      const int64_t rank = olmo::get_rank();
      const auto all = olmo::all_gather_object(std::string(static_cast<size_t>(rank * 1000), 'x'));
      RANK_EXPECT(all.size() == 3U && all[2].size() == 2000U && all[0].empty());
      const std::vector<double> numbers{0.1, -1e308, std::numeric_limits<double>::infinity(),
                                        5e-324};
      RANK_EXPECT(olmo::broadcast_object(rank == 1 ? numbers : std::vector<double>{}, 1) ==
                  numbers);
      RANK_EXPECT(std::isnan(olmo::broadcast_object(std::nan(""), 2)));
      RANK_EXPECT(olmo::synchronize_value(0.1, at::kCPU) == 0.1) << "not rounded to float";
      int64_t turns = 0;
      olmo::do_n_at_a_time([&] { ++turns; }, {.n = 1});
      RANK_EXPECT(turns == 1);
    });
  });
}

TEST(OlmoUtils, InitDistributedAgainIsSkipped) {
  run_ranks(2, [](World& world) {
    const Backend backend = world.backend();
    as_current(world, [&] {
      const World* const connected = World::current();
      olmo::init_distributed();
      olmo::init_distributed(to_string(backend));
      RANK_EXPECT(World::current() == connected && olmo::get_world_size() == 2);
      RANK_EXPECT(olmo::all_reduce_value(1) == 2);
      bool refused = false;
      try {
        olmo::init_distributed("fake");
      } catch (const ConfigError&) {
        refused = true;
      }
      RANK_EXPECT(refused) << "another back end";
    });
  });
}

TEST(OlmoUtils, WorkWithoutAWorld) {
  EXPECT_FALSE(olmo::is_distributed());
  olmo::barrier();
  EXPECT_EQ(olmo::get_world_size(), 1);
  EXPECT_EQ(olmo::broadcast_object(std::string("x"), 5), "x");
  EXPECT_EQ(olmo::all_gather_object(7), std::vector<int>{7});
  EXPECT_EQ(olmo::all_gather(at::ones({2})).size(), 1U);
  EXPECT_EQ(olmo::all_reduce_value(int64_t{3}, at::kCPU), 3);
  EXPECT_TRUE(olmo::synchronize_flag(true, at::kCPU));
  EXPECT_EQ(olmo::do_n_at_a_time([] { return 4; }), 4);
  EXPECT_FALSE(olmo::get_node_hostname().empty());
  EXPECT_TRUE(olmo::backend_supports_cpu());
}

TEST(OlmoUtils, RefuseUnknownBackends) {
  EXPECT_THROW(olmo::init_distributed("smoke signals"), ConfigError);
  EXPECT_FALSE(olmo::is_distributed());
}

}  // namespace
}  // namespace tessera
