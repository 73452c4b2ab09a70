// Threads as ranks of one segment, compared with sums computed here, bit by bit.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <functional>
#include <latch>
#include <span>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/shm/collective_queue.h"
#include "tessera/comm/shm/messages.h"

namespace tessera {

using namespace comm::detail::shm;

namespace {

using std::chrono::seconds;
using Floats = std::vector<float>;

constexpr seconds kTimeout{60};

std::byte* bytes_of(Floats& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

/// One mapping for all ranks, so that the thread sanitizer sees who reads what another writes.
using SharedSegment = std::shared_ptr<const Segment>;

Board make_board(const SharedSegment& segment, int rank, int size) {
  return {segment, rank, std::vector<pid_t>(static_cast<size_t>(size), getpid())};
}

SharedSegment make_segment(int size) {
  const auto segment = std::make_shared<Segment>(Segment::create(Board::bytes_for(size)));
  make_board(segment, 0, size).commit_counters();
  return segment;
}

struct Rank {
  Rank(const SharedSegment& segment, int rank, int size) : board(make_board(segment, rank, size)) {
    board.commit_slots();
  }
  Board board;
  Patience patience{true};
  CollectiveQueue collectives{board, patience};
};

void run_threads(int size, const std::function<void(Rank&)>& body) {
  const SharedSegment segment = make_segment(size);
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      Rank rank(segment, i, size);
      body(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Sums of such numbers depend on their order. Cheap, because sanitized builds make many.
Floats random_values(int rank, size_t count) {
  auto state = static_cast<uint32_t>(rank + 1);
  Floats values(count);
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
  }
  return values;
}

Floats sum_in_rank_order(int size, size_t count) {
  Floats sum = random_values(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const Floats other = random_values(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] += other[i];
  }
  return sum;
}

bool same_bits(const Floats& a, const Floats& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

// Below and above the limits between algorithms, and not a multiple of anything; shm_buffers_test
// has larger ones.
constexpr size_t kCounts[] = {0, 1, 17, 1023, 32769, 200'003, 700'001};

TEST(SharedMemory, AllReducesInRankOrder) {
  for (const int size : {2, 3, 5}) {
    run_threads(size, [size](Rank& rank) {
      for (const size_t count : kCounts) {
        Floats values = random_values(rank.board.rank(), count);
        const auto operation = rank.collectives.all_reduce(bytes_of(values), {.count = count}, {});
        EXPECT_TRUE(rank.collectives.wait(*operation, kTimeout));
        EXPECT_TRUE(same_bits(values, sum_in_rank_order(size, count))) << size << " " << count;
      }
    });
  }
}

TEST(SharedMemory, ReduceScattersAndGathersBack) {
  for (const int size : {2, 4}) {
    run_threads(size, [size](Rank& rank) {
      for (const size_t count : kCounts) {
        const auto ranks = static_cast<size_t>(size);
        Floats input = random_values(rank.board.rank(), count * ranks);
        Floats output(count);
        const auto reduce = rank.collectives.reduce_scatter(bytes_of(output), bytes_of(input),
                                                            {.count = count}, {});
        EXPECT_TRUE(rank.collectives.wait(*reduce, kTimeout));
        Floats all(count * ranks);
        const auto gather =
            rank.collectives.all_gather(bytes_of(all), bytes_of(output), count * sizeof(float), {});
        EXPECT_TRUE(rank.collectives.wait(*gather, kTimeout));
        EXPECT_TRUE(same_bits(all, sum_in_rank_order(size, count * ranks))) << count;
      }
    });
  }
}

// Many in flight, waited for in reverse order: the slots are reused while others still read.
TEST(SharedMemory, OperationsInFlightKeepTheirOrder) {
  constexpr size_t kMany = 40;
  constexpr int kSize = 3;
  run_threads(kSize, [](Rank& rank) {
    std::vector<Floats> values;
    for (size_t i = 0; i < kMany; ++i) values.push_back(random_values(rank.board.rank(), 10 + i));
    std::vector<std::shared_ptr<Pending>> operations;
    for (Floats& one : values) {
      operations.push_back(rank.collectives.all_reduce(bytes_of(one), {.count = one.size()}, {}));
      operations.push_back(rank.collectives.broadcast(bytes_of(one), one.size() * sizeof(float),
                                                      static_cast<int>(one.size()) % kSize, {}));
    }
    for (size_t i = operations.size(); i-- > 0;) {
      EXPECT_TRUE(rank.collectives.wait(*operations[i], kTimeout));
    }
    for (const Floats& one : values) {
      EXPECT_TRUE(same_bits(one, sum_in_rank_order(kSize, one.size())));
    }
  });
}

// The root starts more than there are slots before anybody reads.
TEST(SharedMemory, ARootDoesNotOverwriteWhatOthersHaveNotRead) {
  constexpr size_t kMany = 3 * kNumSlots;
  std::latch started(2);
  run_threads(2, [&](Rank& rank) {
    const bool is_root = rank.board.rank() == 0;
    std::vector<Floats> values;
    for (size_t i = 0; i < kMany; ++i)
      values.emplace_back(100, is_root ? static_cast<float>(i) : -1);
    std::vector<std::shared_ptr<Pending>> operations;
    const auto start = [&] {
      for (Floats& one : values) {
        operations.push_back(rank.collectives.broadcast(bytes_of(one), 100 * sizeof(float), 0, {}));
      }
    };
    if (is_root) start();
    started.arrive_and_wait();
    if (!is_root) start();
    for (const auto& operation : operations) {
      EXPECT_TRUE(rank.collectives.wait(*operation, kTimeout));
    }
    for (size_t i = 0; i < kMany; ++i) {
      EXPECT_TRUE(same_bits(values[i], Floats(100, static_cast<float>(i)))) << i;
    }
  });
}

// Nobody waits for the first queue: the helper thread must advance it.
TEST(SharedMemory, RanksMayWaitInDifferentOrders) {
  const SharedSegment other = make_segment(2);
  run_threads(2, [&](Rank& first) {
    Rank second(other, first.board.rank(), 2);
    for (const size_t count : kCounts) {
      Floats a = random_values(first.board.rank(), count);
      Floats b = a;
      const auto on_first = first.collectives.all_reduce(bytes_of(a), {.count = count}, {});
      const auto on_second = second.collectives.all_reduce(bytes_of(b), {.count = count}, {});
      const bool in_order = first.board.rank() == 0;
      EXPECT_TRUE((in_order ? first : second)
                      .collectives.wait(*(in_order ? on_first : on_second), kTimeout));
      EXPECT_TRUE((in_order ? second : first)
                      .collectives.wait(*(in_order ? on_second : on_first), kTimeout));
      EXPECT_TRUE(same_bits(a, sum_in_rank_order(2, count)) && same_bits(a, b));
    }
  });
}

TEST(SharedMemory, AllToAllOfUnevenSizes) {
  constexpr int kSize = 3;
  const auto size_for = [](int from, int to) {
    return static_cast<size_t>(from == 2 && to == 1 ? 300'000 : from + to);
  };
  run_threads(kSize, [&](Rank& rank) {
    const int me = rank.board.rank();
    Floats input;
    Floats expected;
    std::vector<size_t> send;
    std::vector<size_t> receive;
    for (int peer = 0; peer < kSize; ++peer) {
      input.insert(input.end(), size_for(me, peer), static_cast<float>(10 * me + peer));
      expected.insert(expected.end(), size_for(peer, me), static_cast<float>(10 * peer + me));
      send.push_back(size_for(me, peer) * sizeof(float));
      receive.push_back(size_for(peer, me) * sizeof(float));
    }
    Floats output(expected.size());
    const auto operation =
        rank.collectives.all_to_all(bytes_of(output), bytes_of(input), receive, send, {});
    EXPECT_TRUE(rank.collectives.wait(*operation, kTimeout));
    EXPECT_TRUE(same_bits(output, expected));
  });
}

TEST(SharedMemory, MessagesMatchByTag) {
  constexpr size_t kCount = 300'000;  // More than a ring holds.
  run_threads(2, [](Rank& rank) {
    if (rank.board.rank() == 0) {
      Sender sender(rank.board, rank.patience, 1);
      Floats first = random_values(0, kCount);
      Floats second = random_values(1, 5);
      const auto large = sender.send(bytes_of(first), kCount * sizeof(float), 7, {});
      const auto small = sender.send(bytes_of(second), 5 * sizeof(float), 8, {});
      EXPECT_TRUE(sender.wait(*small, kTimeout) && sender.wait(*large, kTimeout));
    } else {
      Receiver receiver(rank.board, rank.patience, 0);
      Floats first(kCount);
      Floats second(5);
      const auto small = receiver.receive(bytes_of(second), 5 * sizeof(float), 8, {});
      EXPECT_TRUE(receiver.wait(*small, kTimeout)) << "the large one stands before it";
      const auto large = receiver.receive(bytes_of(first), kCount * sizeof(float), 7, {});
      EXPECT_TRUE(receiver.wait(*large, kTimeout));
      EXPECT_TRUE(same_bits(first, random_values(0, kCount)));
      EXPECT_TRUE(same_bits(second, random_values(1, 5)));
    }
  });
}

TEST(SharedMemory, DifferentCallsAreRefused) {
  run_threads(2, [](Rank& rank) {
    Floats values(4);
    const auto operation = rank.board.rank() == 0
                               ? rank.collectives.barrier()
                               : rank.collectives.all_reduce(bytes_of(values), {.count = 4}, {});
    EXPECT_THROW(rank.collectives.wait(*operation, kTimeout), CommError);
  });
}

TEST(SharedMemory, AllToAllsOfDifferentSizesAreRefused) {
  run_threads(2, [](Rank& rank) {
    const size_t wanted = rank.board.rank() == 0 ? 8 : 4;  // Rank 1 sends 4 to rank 0.
    Floats input(16);
    Floats output(16);
    const auto operation = rank.collectives.all_to_all(bytes_of(output), bytes_of(input),
                                                       {wanted, wanted}, {4, 4}, {});
    if (rank.board.rank() == 1) {
      EXPECT_TRUE(rank.collectives.wait(*operation, kTimeout));
    } else {
      EXPECT_THROW(rank.collectives.wait(*operation, kTimeout), CommError);
    }
  });
}

TEST(SharedMemory, AWaitEndsAfterItsTimeout) {
  run_threads(2, [](Rank& rank) {
    if (rank.board.rank() == 1) return;
    const auto operation = rank.collectives.barrier();
    EXPECT_FALSE(rank.collectives.wait(*operation, std::chrono::milliseconds(30)));
  });
}

// A program that only asks whether its operation is done.
TEST(SharedMemory, LookingNoticesThatAnotherRankHasEnded) {
  const SharedSegment segment = make_segment(2);
  pid_t other = 0;
  const char* const words[] = {"sleep", "60", nullptr};
  ASSERT_EQ(posix_spawnp(&other, "sleep", nullptr, nullptr, const_cast<char**>(words), environ), 0);
  Board board(segment, 0, {getpid(), other});
  board.commit_slots();
  Patience patience{true};
  CollectiveQueue collectives{board, patience};
  const auto operation = collectives.barrier();
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  for (int i = 0; i < 1000 && !operation->ended; ++i) collectives.try_advance();
  EXPECT_TRUE(operation->ended);
  EXPECT_THROW(collectives.wait(*operation, kTimeout), CommError);
  EXPECT_THROW(collectives.wait(*collectives.barrier(), kTimeout), CommError) << "later ones fail";
}

TEST(SharedMemory, OnlyTheRightSegmentIsOpened) {
  const Segment segment = Segment::create(4096);
  SegmentPlace place = segment.place();
  EXPECT_EQ(to_text(parse_place(to_text(place))), to_text(place));
  place.token[0] = place.token[0] == '0' ? '1' : '0';
  EXPECT_THROW(Segment::open(place), DataError);
  place = segment.place();
  ++place.inode;
  EXPECT_THROW(Segment::open(place), DataError);
  EXPECT_THROW(parse_place("nonsense"), DataError);
}

}  // namespace
}  // namespace tessera
