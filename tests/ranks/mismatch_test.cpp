// Checked mode: if ranks make different calls, all get the same error before anything is sent.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/variable.h"

namespace tessera {
namespace {

using testkit::run_ranks;

/// The calls of the ranks, where rank 2 is `odd`, and their errors.
struct Case {
  std::string name;
  std::function<void(const Group&, bool odd)> call;
  std::string said;
};

at::Tensor floats(std::vector<int64_t> shape) {
  return at::ones(shape);
}

std::string expected(const std::string& usual, const std::string& odd) {
  return concat("the calls of the ranks of group world differ: ranks 0, 1 called ", usual,
                ", which is expected; but rank 2 called ", odd);
}

const std::vector<Case> kCases{
    {"all_reduce of other shapes",
     [](const Group& group, bool odd) { all_reduce(floats({odd ? 4 : 8}), group).wait(); },
     expected("all_reduce #1 (Float [8], sum)", "all_reduce #1 (Float [4], sum)")},
    {"all_reduce of other dtypes",
     [](const Group& group, bool odd) {
       all_reduce(at::ones({2, 3}, odd ? at::kDouble : at::kFloat), group).wait();
     },
     expected("all_reduce #1 (Float [2, 3], sum)", "all_reduce #1 (Double [2, 3], sum)")},
    {"all_reduce by other reductions",
     [](const Group& group, bool odd) {
       all_reduce(floats({2}), group, odd ? ReduceOp::kMax : ReduceOp::kSum).wait();
     },
     expected("all_reduce #1 (Float [2], sum)", "all_reduce #1 (Float [2], max)")},
    {"reduce to other ranks",
     [](const Group& group, bool odd) {
       reduce(floats({2}), GroupRank{odd ? 1 : 0}, group).wait();
     },
     expected("reduce #1 (Float [2], sum, root 0)", "reduce #1 (Float [2], sum, root 1)")},
    {"broadcast from other ranks",
     [](const Group& group, bool odd) {
       broadcast(floats({2}), GroupRank{odd ? 1 : 0}, group).wait();
     },
     expected("broadcast #1 (Float [2], root 0)", "broadcast #1 (Float [2], root 1)")},
    {"all_gather of other shapes",
     [](const Group& group, bool odd) { all_gather(floats({2, odd ? 2 : 3}), group).wait(); },
     expected("all_gather #1 (Float [2, 3], dim 0)", "all_gather #1 (Float [2, 2], dim 0)")},
    {"all_gather of other dtypes, uneven",
     [](const Group& group, bool odd) {
       all_gather_uneven(at::ones({2}, odd ? at::kLong : at::kFloat), group).wait();
     },
     expected("all_gather #2 (Float [2])", "all_gather #2 (Long [2])")},
    {"reduce_scatter with other pieces",
     [](const Group& group, bool odd) {
       const Sizes sizes = odd ? Sizes{1, 1, 4} : Sizes{2, 2, 2};
       reduce_scatter(floats({6}), group, ReduceOp::kSum, 0, sizes).wait();
     },
     expected("reduce_scatter #1 (Float [6], sum, dim 0, sizes 2+2+2)",
              "reduce_scatter #1 (Float [6], sum, dim 0, sizes 1+1+4)")},
    {"all_to_all with rows of other shapes",
     [](const Group& group, bool odd) { all_to_all(floats({3, odd ? 2 : 1}), group).wait(); },
     expected("all_to_all #1 (Float rows of [1])", "all_to_all #1 (Float rows of [2])")},
    {"all_to_all with shares that do not fit",
     [](const Group& group, bool odd) {
       const Sizes send = odd ? Sizes{2, 1, 1} : Sizes{1, 1, 1};
       all_to_all(floats({odd ? 4 : 3}), send, {1, 1, 1}, group).wait();
     },
     "the calls of the ranks of group world differ: all ranks called all_to_all #1 (Float rows of "
     "[]), but rank 2 sends 2 rows to rank 0, which expects 1"},
    {"gather to other ranks",
     [](const Group& group, bool odd) {
       gather(floats({2}), GroupRank{odd ? 1 : 0}, group).wait();
     },
     expected("gather #1 (Float [2], root 0)", "gather #1 (Float [2], root 1)")},
    {"scatter of other shapes",
     [](const Group& group, bool odd) {
       const std::vector<at::Tensor> pieces(3, floats({2}));
       scatter(floats({odd ? 3 : 2}), pieces, GroupRank{0}, group).wait();
     },
     expected("scatter #1 (Float [2], root 0)", "scatter #1 (Float [3], root 0)")},
    {"all_reduce_coalesced of other lists",
     [](const Group& group, bool odd) {
       const std::vector<at::Tensor> tensors(odd ? 1 : 2, floats({2}));
       all_reduce_coalesced(tensors, group).wait();
     },
     expected("all_reduce_coalesced #1 (Float [2], Float [2], sum)",
              "all_reduce_coalesced #1 (Float [2], sum)")},
    {"all_gather_coalesced of other shapes",
     [](const Group& group, bool odd) {
       const std::vector<at::Tensor> tensors{floats({odd ? 1 : 2})};
       all_gather_coalesced(tensors, group).wait();
     },
     expected("all_gather_coalesced #1 (Float [2], dim 0)",
              "all_gather_coalesced #1 (Float [1], dim 0)")},
    {"reduce_scatter_coalesced by other reductions",
     [](const Group& group, bool odd) {
       const std::vector<at::Tensor> tensors{floats({3})};
       reduce_scatter_coalesced(tensors, group, odd ? ReduceOp::kMin : ReduceOp::kSum).wait();
     },
     expected("reduce_scatter_coalesced #1 (Float [3], sum)",
              "reduce_scatter_coalesced #1 (Float [3], min)")},
    {"a barrier where others reduce",
     [](const Group& group, bool odd) {
       if (odd) {
         barrier(group);
       } else {
         all_reduce(floats({2}), group).wait();
       }
     },
     expected("all_reduce #1 (Float [2], sum)", "barrier #1")},
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

TEST(Mismatch, EveryCollectiveGivesTheSameErrorOnAllRanks) {
  const testkit::Variable checks("TESSERA_CHECK_COLLECTIVES", "1");
  run_ranks(3, [](World& world) {
    for (const Case& one : kCases) {
      World again =
          World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)});
      const Group group = again.group();
      const std::string said = message_of([&] { one.call(group, world.rank().value == 2); });
      RANK_EXPECT(said == one.said) << one.name << ":\n" << said << "\n" << one.said;
      RANK_EXPECT(!message_of([&] { barrier(group); }).empty()) << "the group is lost";
      again.close();
    }
  });
}

TEST(Mismatch, WithTwoRanksNoneIsTheOddOne) {
  const testkit::Variable checks("TESSERA_CHECK_COLLECTIVES", "1");
  run_ranks(2, [](World& world) {
    const std::string said = message_of(
        [&] { all_reduce(floats({world.rank().value == 0 ? 2 : 3}), world.group()).wait(); });
    RANK_EXPECT(said ==
                "the calls of the ranks of group world differ: rank 0 called all_reduce #1 (Float "
                "[2], sum); rank 1 called all_reduce #1 (Float [3], sum)")
        << said;
  });
}

// The second end detects it; the other end gets the error while it waits.
TEST(Mismatch, AMessageThatDoesNotMatchFailsOnBothEnds) {
  const testkit::Variable checks("TESSERA_CHECK_COLLECTIVES", "1");
  run_ranks(2, [](World& world) {
    const int64_t rank = world.rank().value;
    for (const int64_t late : {0, 1}) {
      World again =
          World::connect({.backend = Backend::kGloo, .timeout = std::chrono::seconds(60)});
      const Group group = again.group();
      barrier(group);
      const std::string said = message_of([&] {
        at::Tensor tensor = at::zeros({rank == 0 ? 1 << 20 : 2});
        if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        if (rank == 0) send(tensor, GroupRank{1}, group).wait();
        if (rank == 1) recv(tensor, GroupRank{0}, group).wait();
      });
      RANK_EXPECT(said.find("the ends of a message in group world differ: rank 0 sends Float "
                            "[1048576], but rank 1 expects Float [2]") != std::string::npos)
          << said;
      barrier(world.group());
    }
  });
}

// Calls that work without the checks also work with them.
TEST(Mismatch, ChecksChangeNothingWhereTheRanksAgree) {
  const testkit::Variable checks("TESSERA_CHECK_COLLECTIVES", "1");
  run_ranks(3, [](World& world) {
    const Group group = world.group();
    const int64_t rank = world.rank().value;
    RANK_EXPECT(all_reduce(at::full({2}, rank), group).wait()[1].item<int64_t>() == 3);
    RANK_EXPECT(all_gather_uneven(at::ones({rank}), group).wait().size() == 3U);
    const Sizes send_rows{rank + 1, rank + 1, rank + 1};
    const at::Tensor rows = at::ones({3 * (rank + 1), 2});
    RANK_EXPECT(all_to_all(rows, send_rows, {1, 2, 3}, group).wait().size(0) == 6);
    at::Tensor mine = at::full({4}, rank);
    at::Tensor other = at::zeros({4}, at::kLong);
    const GroupRank next{(rank + 1) % 3};
    const GroupRank previous{(rank + 2) % 3};
    const std::vector<P2p> ring{{P2p::Kind::kSend, mine, next},
                                {P2p::Kind::kRecv, other, previous}};
    (void)batch_send_recv(ring, group).wait();
    RANK_EXPECT(other[3].item<int64_t>() == previous.value);
    // Started before any rank sends, waited for afterwards.
    Work work = recv(other, previous, group);
    (void)send(mine, next, group).wait();
    (void)std::move(work).wait();
    RANK_EXPECT(other[0].item<int64_t>() == previous.value);
    barrier(group);
  });
}

TEST(Mismatch, AnotherValueOfTheVariableIsRefused) {
  const testkit::Variable checks("TESSERA_CHECK_COLLECTIVES", "yes");
  const LaunchInfo two{.launcher = "test", .rank = 0, .world_size = 2, .local_world_size = 2};
  EXPECT_THROW(World::connect(two, {.backend = Backend::kGloo}), ConfigError);
}

}  // namespace
}  // namespace tessera
