// Worlds and groups on real ranks: which communicators are shared, separate or made again, and
// where processes listen.
#include "tessera/comm/world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/comm/collectives.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/sockets.h"

namespace tessera {
namespace {

using testkit::reduced_rank;
using testkit::run_ranks;
using testkit::sum_of_ranks;

TEST(World, GroupsKnowTheirRanks) {
  run_ranks(3, [](World& world) {
    const Group pair = world.group(to_ranks({2, 0}), {.name = "pair"});
    RANK_EXPECT(pair.size() == 2);
    RANK_EXPECT(pair.global_rank(GroupRank{0}) == GlobalRank{2});
    RANK_EXPECT(pair.group_rank(GlobalRank{0}) == GroupRank{1});
    RANK_EXPECT(!pair.group_rank(GlobalRank{1}).has_value());
    RANK_EXPECT(pair.is_member() == (world.rank().value != 1));
    RANK_EXPECT(pair == world.group(to_ranks({2, 0}), {.name = "another name"}));
    RANK_EXPECT(!(pair == world.group(to_ranks({2, 0}), {.lane = Lane::kGather})));
    RANK_EXPECT(!(pair == world.group(to_ranks({0, 2}))));
    RANK_EXPECT(!pair.is_member() || reduced_rank(world, pair) == 2);
  });
}

TEST(World, RefusesBadGroups) {
  run_ranks(2, [](World& world) {
    const auto refused = [&](const RankGroup& ranks) {
      try {
        (void)world.group(ranks);
      } catch (const ConfigError&) {
        return true;
      }
      return false;
    };
    RANK_EXPECT(refused({}));
    RANK_EXPECT(refused(to_ranks({0, 0})));
    RANK_EXPECT(refused(to_ranks({0, 2})));
    RANK_EXPECT(refused(to_ranks({-1})));
  });
}

// Two groups of equal ranks on different lanes, used by two threads in a different order on each
// rank.
TEST(World, LanesDoNotMix) {
  run_ranks(2, [](World& world) {
    const Group compute = world.group(to_ranks({0, 1}), {.lane = Lane::kCompute});
    const Group gather = world.group(to_ranks({0, 1}), {.lane = Lane::kGather});
    const auto work = [&](const Group& group, int64_t value) {
      bool right = true;
      for (int64_t i = 0; i < 200; ++i) {
        const at::Tensor sum = all_reduce(at::full({16}, value + i, at::kLong), group).wait();
        right = right && sum[0].item<int64_t>() == 2 * (value + i);
      }
      return right;
    };
    bool first = false;
    bool second = false;
    const bool swap = world.rank().value == 1;
    std::thread one([&] { first = work(swap ? gather : compute, swap ? 100'000 : 0); });
    std::thread two([&] { second = work(swap ? compute : gather, swap ? 0 : 100'000); });
    one.join();
    two.join();
    RANK_EXPECT(first);
    RANK_EXPECT(second);
  });
}

// Thirty groups in one call: every axis of every factorization of 8, some of them twice on
// different lanes.
std::vector<GroupRequest> thirty_groups() {
  std::vector<GroupRequest> requests;
  for (const int64_t stride : {1, 2, 4}) {
    for (int64_t first = 0; first < 8; ++first) {
      if (first / stride % 2 == 0) requests.push_back({to_ranks({first, first + stride})});
    }
  }
  for (int64_t first = 0; first < 8; first += 4) {
    requests.push_back({to_ranks({first, first + 1, first + 2, first + 3})});
    requests.push_back({to_ranks({first / 4, first / 4 + 2, first / 4 + 4, first / 4 + 6})});
  }
  for (int64_t rank = 0; rank < 8; rank += 2) {
    requests.push_back({to_ranks({rank, rank + 1}), {.lane = Lane::kReduce}});
    requests.push_back({to_ranks({rank}), {}});
  }
  for (int64_t i = 0; i < 6; ++i)
    requests.push_back({to_ranks({7, 0, 3}), {.lane = static_cast<Lane>(i % 5)}});
  return requests;
}

TEST(World, APlanOfThirtyGroupsNeverDeadlocks) {
  run_ranks(8, [](World& world) {
    const auto requests = thirty_groups();
    RANK_EXPECT(requests.size() == 30U);
    // Soak runs more rounds of the same.
    const char* soak = std::getenv("TESSERA_SOAK");
    for (int round = 0; round < (soak != nullptr ? 100 : 8); ++round) {
      World again =
          World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)});
      for (const Group& group : again.make_groups(requests)) {
        RANK_EXPECT(!group.is_member() || reduced_rank(world, group) == sum_of_ranks(group));
      }
      again.close();
    }
  });
}

TEST(World, CloseAndConnectAgainFiftyTimes) {
  run_ranks(2, [](World& world) {
    for (int round = 0; round < 50; ++round) {
      World again =
          World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)});
      RANK_EXPECT(reduced_rank(world, again.group()) == 1);
      const Group late = again.group();
      again.close();
      if (round > 0) continue;
      bool refused = false;
      try {
        (void)reduced_rank(world, late);
      } catch (const Error&) {
        refused = true;
      }
      RANK_EXPECT(refused) << "a group of a closed world";
    }
  });
}

TEST(World, ADroppedWorkMakesTheGroupUnusable) {
  run_ranks(2, [](World& world) {
    const Group group = world.group(to_ranks({0, 1}), {.name = "dropped", .lane = Lane::kP2p});
    { const Work dropped = all_reduce(at::ones({1}), group); }
    std::string message;
    try {
      barrier(group);
    } catch (const CommError& error) {
      message = error.what();
    }
    RANK_EXPECT(message.find("all_reduce #1 was dropped without wait()") != std::string::npos)
        << message;
    barrier(world.group());
  });
}

TEST(World, ATimeoutIsACommErrorThatNamesTheOperation) {
  run_ranks(2, [](World& world) {
    const Group group = world.group(to_ranks({0, 1}), {.name = "slow", .lane = Lane::kControl});
    barrier(group);
    group.set_timeout(std::chrono::milliseconds(300));
    std::string message;
    if (world.rank().value == 0) {
      try {
        barrier(group);
      } catch (const CommError& error) {
        message = error.what();
      }
      RANK_EXPECT(message.find("barrier #2 of group slow timed out after") != std::string::npos)
          << message;
    }
    barrier(world.group());
    RANK_EXPECT(true);
  });
}

// Every TCP socket of this process listens on loopback only.
TEST(World, OneHostListensOnLoopbackOnly) {
  run_ranks(2, [](World& world) {
    barrier(world.group());
    const std::vector<testkit::TcpSocket> sockets = testkit::tcp_sockets();
    RANK_EXPECT(std::ranges::any_of(sockets, &testkit::TcpSocket::listens))
        << "Gloo does somewhere";
    for (const testkit::TcpSocket& socket : sockets) {
      RANK_EXPECT(!socket.listens() || socket.is_on_loopback()) << socket.address;
    }
    barrier(world.group());
  });
}

// Like c10d's "cpu:gloo,cuda:nccl": a program written for the CPU also runs with NCCL.
TEST(World, NcclGroupsSendCpuTensorsOverGloo) {
  run_ranks(2, [](World& world) {
    const Group group = world.group(to_ranks({1, 0}), {.name = "nccl", .backend = Backend::kNccl});
    const int64_t me = world.rank().value;
    RANK_EXPECT(all_reduce(at::full({3}, me + 1, at::kLong), group)
                    .wait()
                    .equal(at::full({3}, 3, at::kLong)));
    RANK_EXPECT(all_gather(at::full({1}, me, at::kLong), group)
                    .wait()
                    .equal(at::tensor({1, 0}, at::kLong)));
    const at::Tensor message = at::full({2}, me);
    if (me == 0) (void)send(message, GlobalRank{1}, group).wait();
    if (me == 1) (void)recv(message, GlobalRank{0}, group).wait();
    RANK_EXPECT(message.equal(at::zeros({2}, at::kLong)));
  });
}

TEST(World, OfOneOpensNoSocket) {
  const World world = World::connect(LaunchInfo{}, {.backend = Backend::kGloo});
  EXPECT_EQ(reduced_rank(world, world.group()), 0);
  EXPECT_TRUE(testkit::tcp_sockets().empty());
}

TEST(World, OptionsMayBeEmptyBraces) {
  World world = World::connect({});
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.group().device().type(), world.device().type());
}

struct AttachedToWorld {
  explicit AttachedToWorld(World&) {}
};

TEST(World, MovedFromOnesSaySo) {
  World world = World::fake(GlobalRank{0}, 2);
  const World other = std::move(world);
  // NOLINTBEGIN(bugprone-use-after-move): this is tested.
  EXPECT_THROW((void)world.rank(), StateError);
  EXPECT_THROW((void)world.size(), StateError);
  EXPECT_THROW((void)world.launch(), StateError);
  EXPECT_THROW((void)world.device(), StateError);
  EXPECT_THROW((void)world.group(), StateError);
  EXPECT_THROW((void)world.group(to_ranks({0})), StateError);
  EXPECT_THROW((void)world.make_groups({}), StateError);
  EXPECT_THROW(world.set_timeout(std::chrono::seconds(1)), StateError);
  EXPECT_THROW((void)world.attached<AttachedToWorld>(), StateError);
  world.close();
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(other.size(), 2);
}

TEST(World, AGroupThatWasMovedFromIsStillThatGroup) {
  const World world = World::fake(GlobalRank{1}, 4);
  Group group = world.group();
  // NOLINTBEGIN(bugprone-use-after-move): what is tested.
  Group other = std::move(group);
  EXPECT_EQ(group.size(), 4);
  other = std::move(group);
  EXPECT_EQ(group, other);
  EXPECT_EQ(group.rank(), GroupRank{1});
  // NOLINTEND(bugprone-use-after-move)
}

TEST(World, RanksOfATemporaryGroupLive) {
  const World world = World::fake(GlobalRank{0}, 4);
  int64_t sum = 0;
  for (const GlobalRank rank : world.group(to_ranks({1, 3})).ranks()) sum += rank.value;
  EXPECT_EQ(sum, 4);
  EXPECT_EQ(to_integers(world.group(to_ranks({3, 1})).ranks()), (std::vector<int64_t>{3, 1}));
  static_assert(!std::is_reference_v<decltype(std::declval<Group>().ranks())>);
  static_assert(!std::is_reference_v<decltype(std::declval<Group>().name())>);
}

TEST(World, GroupsPrintTheirNameAndRanks) {
  std::ostringstream text;
  text << World::fake(GlobalRank{0}, 4).group(to_ranks({1, 3}), {.name = "odd"});
  EXPECT_EQ(text.str(), "odd: 1 3");
}

TEST(World, FakeOnesHaveTheRightShapes) {
  World world = World::fake(GlobalRank{3}, 8);
  const Group group = world.group();
  EXPECT_EQ(group.rank(), GroupRank{3});
  EXPECT_EQ(all_gather(at::ones({2, 3}), group, 1).wait().sizes(), (std::vector<int64_t>{2, 24}));
  EXPECT_EQ(reduce_scatter(at::ones({16, 3}), group).wait().sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(all_reduce(at::ones({5}), group).wait().numel(), 5);
  EXPECT_EQ(gather(at::ones({5}), GroupRank{3}, group).wait().size(), 8U);
  barrier(group);
  EXPECT_THROW(World::fake(GlobalRank{8}, 8), ConfigError);
  world.close();
}

TEST(World, ErrorsBeforeAnythingIsSent) {
  const LaunchInfo client{.launcher = "test",
                          .rank = 1,
                          .world_size = 2,
                          .local_rank = 1,
                          .local_world_size = 2,
                          .master_port = 1};
  EXPECT_THROW(World::connect(
                   client, {.backend = Backend::kGloo, .timeout = std::chrono::milliseconds(500)}),
               CommError)
      << "no master answers at port 1";
  EXPECT_THROW(World::connect(LaunchInfo{}, {.timeout = std::chrono::milliseconds(0)}),
               ConfigError);
}

}  // namespace
}  // namespace tessera
