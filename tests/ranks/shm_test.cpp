// Which groups go through shared memory, and what happens without it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/comm/internal/state.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::run_ranks;

constexpr std::chrono::seconds kTimeout{60};

bool shares_memory(const Group& group) {
  (void)group.state().connect();
  return group.state().communicator()->by_memory();
}

/// Another world of the same ranks, which decides anew.
World connect_with(const char* shared) {
  setenv("TESSERA_SHM", shared, 1);
  return World::connect({.backend = Backend::kGloo, .timeout = kTimeout});
}

// Numbers whose sums depend on their order.
at::Tensor uneven_values(int64_t rank, int64_t count, at::ScalarType dtype) {
  return at::arange(count, at::kDouble).add(7 * rank).sin().to(dtype);
}

void check_sums(const Group& group, at::ScalarType dtype, int64_t count) {
  const bool is_short = dtype == at::kHalf || dtype == at::kBFloat16;
  at::Tensor expected = uneven_values(0, count, dtype).to(is_short ? at::kFloat : dtype);
  for (int64_t rank = 1; rank < group.size(); ++rank) {
    expected += uneven_values(rank, count, dtype).to(expected.scalar_type());
  }
  expected = expected.to(dtype);
  const at::Tensor mine = uneven_values(group.rank().value, count, dtype);
  RANK_EXPECT(all_reduce(mine.clone(), group).wait().equal(expected))
      << "all_reduce of " << count << " " << at::toString(dtype);
  const int64_t rows = count / group.size() * group.size();
  const at::Tensor shard = reduce_scatter(mine.narrow(0, 0, rows), group).wait();
  RANK_EXPECT(shard.equal(
      expected.narrow(0, 0, rows).chunk(group.size())[static_cast<size_t>(group.rank().value)]))
      << "reduce_scatter of " << count << " " << at::toString(dtype);
}

TEST(SharedMemoryRanks, SumsInRankOrderWithOneRounding) {
  run_ranks(3, [](World& world) {
    const World shared = connect_with("1");
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      for (const int64_t count : {5, 1000, 100'000, 1'000'003}) {
        check_sums(shared.group(), dtype, count);
      }
    }
    barrier(world.group());
  });
}

TEST(SharedMemoryRanks, GroupsAndLanesOfOneHostShareMemory) {
  run_ranks(4, [](World& world) {
    World shared = connect_with("1");
    RANK_EXPECT(shares_memory(shared.group()));
    RANK_EXPECT(shares_memory(on_lane(shared.group(), Lane::kReduce)));
    RANK_EXPECT(shares_memory(neighbours(shared.group(), 2)));
    World over_gloo = connect_with("0");
    RANK_EXPECT(!shares_memory(over_gloo.group()));
    RANK_EXPECT(testkit::reduced_rank(over_gloo, over_gloo.group()) ==
                testkit::reduced_rank(shared, shared.group()));
    over_gloo.close();
    shared.close();
    barrier(world.group());
  });
}

// One rank that does not want to is enough; the ranks need not agree beforehand.
TEST(SharedMemoryRanks, OneRankCanRefuse) {
  run_ranks(2, [](World& world) {
    World mixed = connect_with(world.rank().value == 1 ? "0" : "1");
    RANK_EXPECT(!shares_memory(mixed.group()));
    RANK_EXPECT(testkit::reduced_rank(mixed, mixed.group()) == 1);
    mixed.close();
  });
}

// As in a container without memory: the system refuses before anything is written.
TEST(SharedMemoryRanks, WithoutMemoryTheGroupUsesGloo) {
  run_ranks(2, [](World& world) {
    World full = connect_with("1");
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{.rlim_cur = 1 << 16, .rlim_max = before.rlim_max};
    if (world.rank().value == 0) setrlimit(RLIMIT_FSIZE, &small);
    RANK_EXPECT(!shares_memory(full.group()));
    setrlimit(RLIMIT_FSIZE, &before);
    RANK_EXPECT(testkit::reduced_rank(full, full.group()) == 1);
    full.close();
  });
}

TEST(SharedMemoryRanks, RanksMayWaitForLanesInDifferentOrders) {
  run_ranks(2, [](World& world) {
    World shared = connect_with("1");
    const Group one = shared.group();
    const Group other = on_lane(one, Lane::kReduce);
    for (const int64_t count : {4, 1'000'000}) {
      Work on_one = all_reduce(at::ones({count}), one);
      Work on_other = all_reduce(at::ones({count}), other);
      const bool in_order = world.rank().value == 0;
      const at::Tensor first = std::move(in_order ? on_one : on_other).wait();
      const at::Tensor second = std::move(in_order ? on_other : on_one).wait();
      RANK_EXPECT(first.eq(2).all().item<bool>() && second.eq(2).all().item<bool>());
    }
    shared.close();
  });
}

// Two launchers with two ranks each: what is large goes through memory inside a host and over Gloo
// between hosts. Ranks of different hosts are neighbours, so nothing is in order by chance.
TEST(SharedMemoryRanks, SeveralHostsAgreeWithOne) {
  run_ranks(4, [](World& world) {
    const World shared = connect_with("1");
    LaunchInfo launch = world.launch();
    launch.node_rank = world.rank().value % 2;
    World hosts = World::connect(launch, {.backend = Backend::kGloo, .timeout = kTimeout});
    const Group group = hosts.group();
    RANK_EXPECT(!shares_memory(group) && group.state().communicator()->partly_by_memory());
    RANK_EXPECT(!shares_memory(neighbours(group, 2))) << "one rank per host";
    for (const int64_t count : {4, 1000, 400'000}) {
      const at::Tensor mine = at::arange(count, at::kLong).mul(world.rank().value + 1);
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
        RANK_EXPECT(
            all_reduce(mine.narrow(0, 1, count - 1).clone(), group, op)
                .wait()
                .equal(
                    all_reduce(mine.narrow(0, 1, count - 1).clone(), shared.group(), op).wait()));
        RANK_EXPECT(reduce_scatter(mine, group, op)
                        .wait()
                        .equal(reduce_scatter(mine, shared.group(), op).wait()));
      }
      RANK_EXPECT(all_gather(mine, group).wait().equal(all_gather(mine, shared.group()).wait()));
      const at::Tensor sent = mine.clone();
      (void)broadcast(sent, GroupRank{3}, group).wait();
      RANK_EXPECT(sent.equal(at::arange(count, at::kLong).mul(4)));
    }
    hosts.close();
  });
}

}  // namespace
}  // namespace tessera
