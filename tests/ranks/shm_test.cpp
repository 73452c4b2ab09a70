// Which groups go through shared memory, and what happens without it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <map>

#include "tessera/base/error.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/comm/internal/state.h"
#include "tessera/comm/recorded_operations.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/throws.h"
#include "tests/testkit/variable.h"

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
  const testkit::Variable variable("TESSERA_SHM", shared);
  return World::connect({.backend = Backend::kGloo, .timeout = kTimeout});
}

/// What the last operation of this rank went through, as the flight recorder says.
std::string recorded_engine(const Group& group) {
  const std::string name = recorded_operations(group).entries.back().profiling_name;
  return name.substr(0, name.find(':'));
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
    World shared = connect_with("");
    RANK_EXPECT(shares_memory(shared.group()));
    RANK_EXPECT(shares_memory(on_lane(shared.group(), Lane::kReduce)));
    RANK_EXPECT(shares_memory(neighbours(shared.group(), 2)));
    World over_gloo = connect_with("0");
    RANK_EXPECT(!shares_memory(over_gloo.group()));
    RANK_EXPECT(testkit::reduced_rank(over_gloo, over_gloo.group()) ==
                testkit::reduced_rank(shared, shared.group()));
    RANK_EXPECT(recorded_engine(shared.group()) == "shm");
    RANK_EXPECT(recorded_engine(over_gloo.group()) == "gloo");
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

TEST(SharedMemory, OtherValuesOfTheVariableAreRefused) {
  const std::string said = testkit::message_of<ConfigError>([] { (void)connect_with("yes"); });
  EXPECT_TRUE(testkit::contains(said, "TESSERA_SHM='yes' must be 0 or 1; 0 sends over Gloo"))
      << said;
}

/// A system call that fails on one rank.
struct RefusedCall {
  unsigned number;
  unsigned error;
  int64_t rank;
};

// As containers do it; for this thread and those that it starts.
void refuse(const RefusedCall& call) {
  std::array<sock_filter, 4> program{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call.number, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | call.error),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  RANK_EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

// Whoever is refused whatever: all ranks of the group go over Gloo, and the next group is free.
TEST(SharedMemoryRanks, ACallRefusedOnOneRankMeansGlooOnAll) {
  run_ranks(3, [](World& world) {
    constexpr std::array kCalls{RefusedCall{SYS_memfd_create, EPERM, 0},
                                RefusedCall{SYS_fallocate, ENOSPC, 2},
                                RefusedCall{SYS_pidfd_open, ENOSYS, 1}};
    World shared = connect_with("1");
    testing::internal::CaptureStderr();
    for (const RefusedCall& call : kCalls) {
      const Group group = shared.group(shared.group().ranks(), {.own = true});
      const auto connect = [&] {
        if (world.rank().value == call.rank) refuse(call);
        return shares_memory(group);
      };
      RANK_EXPECT(!std::async(std::launch::async, connect).get()) << "call " << call.number;
      RANK_EXPECT(testkit::reduced_rank(shared, group) == 3);
      RANK_EXPECT(recorded_engine(group) == "gloo");
    }
    const std::string said = testing::internal::GetCapturedStderr();
    RANK_EXPECT(testkit::contains(said,
                                  "no shared memory between the ranks of this host (rank 0 of "
                                  "the group: cannot create shared memory: Operation not "
                                  "permitted); using Gloo") == (world.rank().value == 0))
        << said;
    RANK_EXPECT(shares_memory(shared.group()));
    shared.close();
  });
}

// As in a container without memory: the system refuses before anything is written.
TEST(SharedMemoryRanks, WithoutMemoryTheGroupUsesGloo) {
  run_ranks(2, [](World& world) {
    World full = connect_with("1");
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

TEST(SharedMemoryRanks, AMessageThatNeverComesTimesOut) {
  run_ranks(2, [](World& world) {
    World shared = connect_with("1");
    const Group group = shared.group(shared.group().ranks(), {.name = "silent", .own = true});
    RANK_EXPECT(shares_memory(group));
    group.set_timeout(std::chrono::milliseconds(300));
    at::Tensor tensor = at::zeros({8});
    const GroupRank other{1 - world.rank().value};
    const std::string said =
        testkit::message_of<CommError>([&] { (void)recv(tensor, other, group).wait(); });
    RANK_EXPECT(testkit::contains(said, "recv #1 of group silent timed out after ") &&
                testkit::contains(said, "recv #1 from rank 0 in group silent") &&
                testkit::contains(said, "recv #1 from rank 1 in group silent"))
        << said;
    shared.close();
  });
}

/// The ranks of each host, of which `node` is this rank's.
std::map<int64_t, std::vector<int64_t>> ranks_by_host(int64_t node, const Group& group) {
  const at::Tensor nodes = all_gather(at::full({1}, node, at::kLong), group).wait();
  std::map<int64_t, std::vector<int64_t>> hosts;
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    hosts[nodes[rank].item<int64_t>()].push_back(rank);
  }
  return hosts;
}

// All reductions of integers, which have no order, and what moves data.
void compare_integers(const Group& group, const Group& reference, int64_t count) {
  const int64_t rank = group.rank().value;
  const at::Tensor mine = at::arange(count, at::kLong).mul(rank + 1);
  const at::Tensor odd = mine.narrow(0, 1, count - 1);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
    RANK_EXPECT(all_reduce(odd.clone(), group, op)
                    .wait()
                    .equal(all_reduce(odd.clone(), reference, op).wait()))
        << "all_reduce of " << count - 1;
    RANK_EXPECT(
        reduce_scatter(mine, group, op).wait().equal(reduce_scatter(mine, reference, op).wait()))
        << "reduce_scatter of " << count;
  }
  RANK_EXPECT(all_gather(mine, group).wait().equal(all_gather(mine, reference).wait()));
  const at::Tensor sent = mine.clone();
  (void)broadcast(sent, GroupRank{3}, group).wait();
  RANK_EXPECT(sent.equal(at::arange(count, at::kLong).mul(4)));
}

// In rank order on each host, then over the hosts; of two hosts, the second order cannot matter.
void check_sum_by_host(const Group& group, const std::map<int64_t, std::vector<int64_t>>& hosts,
                       int64_t count) {
  at::Tensor expected;
  for (const auto& [host, ranks] : hosts) {
    at::Tensor sum = uneven_values(ranks.front(), count, at::kFloat);
    for (size_t i = 1; i < ranks.size(); ++i) sum += uneven_values(ranks[i], count, at::kFloat);
    expected = expected.defined() ? expected + sum : sum;
  }
  const at::Tensor mine = uneven_values(group.rank().value, count, at::kFloat);
  RANK_EXPECT(all_reduce(mine.clone(), group).wait().equal(expected)) << count;
  const int64_t rows = count / group.size() * group.size();
  RANK_EXPECT(reduce_scatter(mine.narrow(0, 0, rows), group)
                  .wait()
                  .equal(expected.narrow(0, 0, rows)
                             .chunk(group.size())[static_cast<size_t>(group.rank().value)]))
      << count;
}

// Two hosts with two ranks each, by memory inside and over Gloo between them. e2e.hosts runs this
// on hosts with networks of their own. Otherwise two nodes share this host, and their ranks
// alternate, so that nothing is in order by chance.
TEST(SharedMemoryRanks, SeveralHostsAgreeWithGloo) {
  run_ranks(4, [](World& world) {
    World over_gloo = connect_with("0");
    LaunchInfo launch = world.launch();
    if (launch.one_host()) launch.node_rank = world.rank().value % 2;
    World hosts = World::connect(launch, {.backend = Backend::kGloo, .timeout = kTimeout});
    const Group group = hosts.group();
    RANK_EXPECT(!shares_memory(group) && group.state().communicator()->partly_by_memory());
    const auto by_host = ranks_by_host(launch.node_rank, over_gloo.group());
    RANK_EXPECT(by_host.size() == 2 && by_host.begin()->second.size() == 2);
    for (const int64_t count : {4, 1000, 400'000}) {
      compare_integers(group, over_gloo.group(), count);
      RANK_EXPECT(recorded_engine(group) == "shm+gloo");
      check_sum_by_host(group, by_host, count);
    }
    const auto& other = *by_host.rbegin();
    const Group one_per_host = hosts.group(to_ranks({by_host.begin()->second[0], other.second[0]}));
    if (one_per_host.is_member()) {
      RANK_EXPECT(!shares_memory(one_per_host) &&
                  !one_per_host.state().communicator()->partly_by_memory());
    }
    const Group own_host = hosts.group(to_ranks(by_host.at(launch.node_rank)));
    RANK_EXPECT(shares_memory(own_host));
    hosts.close();
    over_gloo.close();
  });
}

}  // namespace
}  // namespace tessera
