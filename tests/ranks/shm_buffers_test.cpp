// Buffers that ranks of one host read where they lie: threads as ranks of one segment, then
// processes.
#include "tessera/comm/buffers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "tessera/comm/collectives.h"
#include "tessera/comm/shm/collective_queue.h"
#include "tessera/comm/shm/messages.h"
#include "tests/testkit/ranks.h"

namespace tessera {

using namespace comm::detail::shm;
using testkit::run_ranks;

namespace {

constexpr std::chrono::seconds kTimeout{60};
constexpr size_t kCount =
    300'007;  // Several rounds of every collective, and no multiple of anything.
constexpr size_t kLarge = 2'200'007;  // All-reduces and messages that are read where they lie.
static_assert(kLarge * sizeof(float) > kPastCache);

// ---- The arena

TEST(Arena, UsesFreedBuffersAgain) {
  Arena arena;
  std::byte* const a = arena.allocate(10'000);
  std::byte* const b = arena.allocate(20'000);
  std::byte* const c = arena.allocate(1);
  EXPECT_GE(b - a, 10'000);
  EXPECT_GE(c - b, 20'000);
  std::memset(b, 1, 20'000);
  arena.free(b);
  EXPECT_EQ(arena.allocate(15'000), b);
  arena.free(b);
  arena.free(a);
  arena.free(c);
  EXPECT_EQ(arena.allocate(32'000), a) << "neighbours were not joined";
  EXPECT_EQ(arena.offset_of(a + 5).value(), arena.offset_of(a).value() + 5);
  EXPECT_GT(arena.offset_of(a).value(), 0U) << "0 means no place";
  EXPECT_FALSE(arena.offset_of(reinterpret_cast<const std::byte*>(&arena)));
}

TEST(Arena, GivesNothingWhenItIsFull) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  {
    Arena arena;
    std::byte* const most = arena.allocate(1'000'000);
    EXPECT_NE(most, nullptr);
    EXPECT_EQ(arena.allocate(100'000), nullptr);
    arena.free(most);
    EXPECT_NE(arena.allocate(100'000), nullptr);
  }
  setrlimit(RLIMIT_FSIZE, &before);
}

TEST(Arena, IsOpenedOnce) {
  const Arena arena;
  OpenArenas open;
  const auto first = open.open(arena.segment().place());
  EXPECT_EQ(open.open(arena.segment().place()), first);
  EXPECT_NE(first->data(), arena.segment().data());
}

// ---- Threads as ranks

/// A rank as a thread. Ranks with odd numbers have ordinary memory, so that each operation mixes
/// ranks that offer their inputs and ranks that copy them.
struct Rank {
  Rank(const std::shared_ptr<const Segment>& segment,
       const std::vector<std::shared_ptr<Arena>>& arenas, int rank)
      : arena(arenas[static_cast<size_t>(rank)]), board(segment, rank, pids(arenas), of(arenas)) {
    if (rank == 0) board.commit_counters();
    board.commit_slots();
  }
  static std::vector<pid_t> pids(const std::vector<std::shared_ptr<Arena>>& arenas) {
    return std::vector<pid_t>(arenas.size(), getpid());
  }
  // The same mappings for all, so that the thread sanitizer sees who reads what another writes.
  Arenas of(const std::vector<std::shared_ptr<Arena>>& arenas) const {
    Arenas all{.own = arena};
    for (const auto& one : arenas) all.of_rank.emplace_back(one, &one->segment());
    return all;
  }

  std::span<float> values(size_t count) {
    const bool is_odd = board.rank() % 2 == 1;
    if (is_odd) return ordinary.emplace_back(count);
    return {reinterpret_cast<float*>(arena->allocate(count * sizeof(float))), count};
  }
  /// Numbers whose sums depend on their order.
  std::span<float> input(size_t count) {
    const std::span<float> mine = values(count);
    for (size_t i = 0; i < count; ++i) mine[i] = value(board.rank(), i);
    return mine;
  }
  static float value(int rank, size_t i) {
    return std::sin(static_cast<float>(i) + 0.37F * static_cast<float>(rank));
  }
  void wait(const std::shared_ptr<Pending>& operation) {
    EXPECT_TRUE(collectives.wait(*operation, kTimeout));
  }

  std::shared_ptr<Arena> arena;
  Board board;
  Patience patience{true};
  CollectiveQueue collectives{board, patience};
  std::list<std::vector<float>> ordinary;
};

std::byte* bytes_of(std::span<float> values) {
  return reinterpret_cast<std::byte*>(values.data());
}

void run_threads(int size, const std::function<void(Rank&)>& body) {
  const auto segment = std::make_shared<const Segment>(Segment::create(Board::bytes_for(size)));
  std::vector<std::shared_ptr<Arena>> arenas;
  for (int i = 0; i < size; ++i) arenas.push_back(std::make_shared<Arena>());
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int i = 0; i < size; ++i) ranks.push_back(std::make_unique<Rank>(segment, arenas, i));
  std::vector<std::thread> threads;
  for (auto& rank : ranks) threads.emplace_back([&] { body(*rank); });
  for (std::thread& thread : threads) thread.join();
}

float sum_of(int size, size_t i) {
  float sum = Rank::value(0, i);
  for (int rank = 1; rank < size; ++rank) sum += Rank::value(rank, i);
  return sum;
}

void expect_sums(std::span<const float> values, int size, size_t begin) {
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], sum_of(size, begin + i)) << i;
  }
}

TEST(SharedBuffers, ReductionsReadThem) {
  for (const int size : {2, 3}) {
    run_threads(size, [size](Rank& rank) {
      for (const size_t count : {kCount, kLarge}) {
        const std::span<float> all = rank.input(count);
        rank.wait(rank.collectives.all_reduce(bytes_of(all), {.count = count}, {}));
        expect_sums(all, size, 0);
      }
      const std::span<float> at_root = rank.input(kCount);
      rank.wait(rank.collectives.reduce(bytes_of(at_root), {.count = kCount}, 1, {}));
      if (rank.board.rank() == 1) expect_sums(at_root, size, 0);
      const std::span<float> input = rank.input(kCount * static_cast<size_t>(size));
      const std::span<float> share = rank.values(kCount);
      rank.wait(
          rank.collectives.reduce_scatter(bytes_of(share), bytes_of(input), {.count = kCount}, {}));
      expect_sums(share, size, kCount * static_cast<size_t>(rank.board.rank()));
    });
  }
}

void expect_from(std::span<const float> values, int rank) {
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], Rank::value(rank, i)) << i;
}

TEST(SharedBuffers, TransfersReadThem) {
  constexpr int kSize = 3;
  run_threads(kSize, [](Rank& rank) {
    constexpr size_t kBytes = kCount * sizeof(float);
    const std::span<float> mine = rank.input(kCount);
    const std::span<float> all = rank.values(kCount * kSize);
    rank.wait(rank.collectives.all_gather(bytes_of(all), bytes_of(mine), kBytes, {}));
    for (int from = 0; from < kSize; ++from) {
      expect_from(all.subspan(kCount * static_cast<size_t>(from), kCount), from);
    }
    for (const int root : {0, 1}) {
      const std::span<float> data = rank.input(kCount);
      rank.wait(rank.collectives.broadcast(bytes_of(data), kBytes, root, {}));
      expect_from(data, root);
      std::vector<std::byte*> outputs;
      for (size_t from = 0; from < kSize; ++from) outputs.push_back(bytes_of(all) + from * kBytes);
      rank.wait(rank.collectives.gather(outputs, bytes_of(mine), kBytes, root, {}));
      if (rank.board.rank() != root) continue;
      for (int from = 0; from < kSize; ++from) {
        expect_from(all.subspan(kCount * static_cast<size_t>(from), kCount), from);
      }
    }
  });
}

// A rank that offers its input is through after one round, while the others need several.
TEST(SharedBuffers, AllToAllReadsThem) {
  constexpr int kSize = 3;
  const auto size_for = [](int from, int to) {
    return kCount + static_cast<size_t>(1000 * from + 10 * to);
  };
  run_threads(kSize, [&](Rank& rank) {
    const int me = rank.board.rank();
    std::vector<size_t> send;
    std::vector<size_t> receive;
    size_t sent = 0;
    size_t received = 0;
    for (int peer = 0; peer < kSize; ++peer) {
      send.push_back(size_for(me, peer) * sizeof(float));
      receive.push_back(size_for(peer, me) * sizeof(float));
      sent += size_for(me, peer);
      received += size_for(peer, me);
    }
    const std::span<float> input = rank.input(sent);
    const std::span<float> output = rank.values(received);
    rank.wait(rank.collectives.all_to_all(bytes_of(output), bytes_of(input), receive, send, {}));
    size_t at = 0;
    for (int from = 0; from < kSize; ++from) {
      size_t begin = 0;
      for (int to = 0; to < me; ++to) begin += size_for(from, to);
      for (size_t i = 0; i < size_for(from, me); ++i) {
        ASSERT_EQ(output[at++], Rank::value(from, begin + i)) << "from " << from << " at " << i;
      }
    }
  });
}

// A sender may write to its buffer again as soon as its wait returns.
TEST(SharedBuffers, MessagesAreReadBeforeTheirSendEnds) {
  run_threads(2, [](Rank& rank) {
    constexpr size_t kBytes = kLarge * sizeof(float);
    if (rank.board.rank() == 0) {
      Sender sender(rank.board, rank.patience, 1);
      const std::span<float> data = rank.input(kLarge);
      for (int i = 0; i < 3; ++i) {
        data[0] = static_cast<float>(i);
        const auto sending = sender.send(bytes_of(data), kBytes, 5, {});
        EXPECT_TRUE(sender.wait(*sending, kTimeout));
      }
    } else {
      Receiver receiver(rank.board, rank.patience, 0);
      const std::span<float> data = rank.values(kLarge);
      for (int i = 0; i < 3; ++i) {
        const auto receiving = receiver.receive(bytes_of(data), kBytes, 5, {});
        EXPECT_TRUE(receiver.wait(*receiving, kTimeout));
        EXPECT_EQ(data[0], static_cast<float>(i));
        data[0] = Rank::value(0, 0);
        expect_from(data, 0);
      }
    }
  });
}

// ---- Processes

World connect_sharing() {
  setenv("TESSERA_SHM", "1", 1);
  return World::connect({.backend = Backend::kGloo, .timeout = kTimeout});
}

bool is_shared(const at::Tensor& tensor) {
  const auto address = reinterpret_cast<uintptr_t>(tensor.data_ptr());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    if (begin <= address && address < end) return line.find("memfd:tessera") != std::string::npos;
  }
  return false;
}

TEST(SharedBufferRanks, GiveTheSameResultsAsOrdinaryMemory) {
  run_ranks(3, [](World&) {
    World world = connect_sharing();
    const Group group = world.group();
    const int64_t rank = group.rank().value;
    const at::Tensor plain = at::arange(3 * 800'000, at::kFloat).mul(rank + 1).sin();
    const at::Tensor shared = empty_buffer(plain.sizes(), plain.options(), group).copy_(plain);
    RANK_EXPECT(is_shared(shared) && !is_shared(plain));
    RANK_EXPECT(all_to_all(shared, group).wait().equal(all_to_all(plain, group).wait()));
    RANK_EXPECT(all_gather(shared, group).wait().equal(all_gather(plain, group).wait()));
    RANK_EXPECT(reduce_scatter(shared, group).wait().equal(reduce_scatter(plain, group).wait()));
    const std::vector<at::Tensor> table{plain.view({3, -1}).t(), plain};
    RANK_EXPECT(
        all_reduce_coalesced(table, group).wait()[1].equal(all_reduce(shared, group).wait()));
    const GroupRank next{(rank + 1) % 3};
    const GroupRank previous{(rank + 2) % 3};
    const at::Tensor arrived = at::empty_like(plain);
    const std::vector<P2p> ring{{P2p::Kind::kSend, shared, next},
                                {P2p::Kind::kRecv, arrived, previous}};
    (void)batch_send_recv(ring, group).wait();
    RANK_EXPECT(arrived.equal(shared)) << "all ranks have the same sum";
    world.close();
    RANK_EXPECT(shared.sum().isfinite().item<bool>()) << "a buffer outlives its world";
  });
}

TEST(SharedBufferRanks, AreOrdinaryIfSmallOrWithoutSharedMemory) {
  run_ranks(2, [](World& world) {
    World shared = connect_sharing();
    RANK_EXPECT(!is_shared(empty_buffer({10}, at::kFloat, shared.group())));
    RANK_EXPECT(is_shared(empty_buffer({1 << 20}, at::kFloat, shared.group())));
    shared.close();
    setenv("TESSERA_SHM", "0", 1);
    World plain = World::connect({.backend = Backend::kGloo, .timeout = kTimeout});
    RANK_EXPECT(!is_shared(empty_buffer({1 << 20}, at::kFloat, plain.group())));
    plain.close();
    barrier(world.group());
  });
}

}  // namespace
}  // namespace tessera
