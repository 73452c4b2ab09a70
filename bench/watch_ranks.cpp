// What recording and watching cost, as one rank of two:
//
//   tessera run --nproc 2 -- watch_ranks
//
// Operations with and without them take turns in one run, because machines are noisy; and since
// the difference drowns in that noise, both costs are also measured by themselves.
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <thread>
#include <vector>

#include "tessera/comm/collectives.h"
#include "tessera/comm/internal/state.h"
#include "tessera/comm/world.h"

namespace tessera {

using namespace comm::detail;

namespace {

using Clock = std::chrono::steady_clock;

double in_us(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void reduce(const Group& group, int times, std::vector<double>& durations) {
  const at::Tensor tensor = at::zeros({1024});  // 4 KiB.
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    all_reduce(tensor, group).wait();
    durations.push_back(in_us(Clock::now() - start));
  }
}

// Of one operation: called, waited for, ended.
double recording_us(Recorder& recorder, const Group& group) {
  constexpr int kTimes = 1'000'000;
  const at::Tensor tensor = at::zeros({1024});
  const RankGroup ranks(group.ranks().begin(), group.ranks().end());
  const auto recorded = recorder.add_group("bench", "bench", ranks);
  recorder.set_engine(*recorded, "gloo");
  const auto start = Clock::now();
  for (int i = 0; i < kTimes; ++i) {
    const uint64_t record = recorder.scheduled(
        recorded,
        {.name = "all_reduce", .sequence = static_cast<uint64_t>(i), .inputs = {&tensor, 1}});
    recorder.waiting(record);
    recorder.completed(record);
  }
  return in_us(Clock::now() - start) / kTimes;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The share of a core that heartbeats take while the rank does nothing else.
double watching_share() {
  constexpr std::chrono::seconds kIdle{10};
  const double before = cpu_seconds();
  std::this_thread::sleep_for(kIdle);
  return (cpu_seconds() - before) / std::chrono::duration<double>(kIdle).count();
}

int run() {
  World watched = World::connect({.backend = Backend::kGloo});
  World plain = World::connect({.backend = Backend::kGloo});
  const Group with = watched.group();
  const RankGroup ranks(with.ranks().begin(), with.ranks().end());
  auto& plain_state = plain.group().state().world();
  plain_state.watchdog->stop("");
  plain_state.watchdog = nullptr;
  plain_state.recorder = nullptr;
  // Made after, hence neither recorded nor watched. Two of each kind, because two communicators
  // that are alike already differ by some microseconds: who is where in memory, and on which core.
  const std::vector<Group> with_groups{with, watched.group(ranks, {.lane = Lane::kReduce})};
  const std::vector<Group> without_groups{plain.group(ranks),
                                          plain.group(ranks, {.lane = Lane::kReduce})};

  std::vector<double> warm_up;
  std::vector<std::vector<double>> with_us(2);
  std::vector<std::vector<double>> without_us(2);
  for (const size_t i : {0, 1}) {
    reduce(with_groups[i], 200, warm_up);
    reduce(without_groups[i], 200, warm_up);
  }
  // The order turns round, because who comes later in a block is faster.
  for (int block = 0; block < 52; ++block) {
    for (int turn = block; turn < block + 4; ++turn) {
      const size_t i = static_cast<size_t>(turn / 2 % 2);
      const bool recorded = turn % 2 == 0;
      reduce(recorded ? with_groups[i] : without_groups[i], 100,
             recorded ? with_us[i] : without_us[i]);
    }
  }
  barrier(with);
  const double share = watching_share();
  barrier(with);
  if (watched.rank().value != 0) std::this_thread::sleep_for(std::chrono::seconds(3));
  const double recording = recording_us(*with.state().world().recorder, with);
  if (watched.rank().value == 0) {
    const double operation = std::min(median(without_us[0]), median(without_us[1]));
    std::printf("all_reduce of 4 KiB, medians of 5,200 in turns, two groups of each kind:\n");
    std::printf("  with %.1f and %.1f us, without %.1f and %.1f us\n", median(with_us[0]),
                median(with_us[1]), median(without_us[0]), median(without_us[1]));
    std::printf("recording: %.3f us an operation, %.2f %% of it\n", recording,
                100 * recording / operation);
    std::printf("heartbeats: %.3f %% of a core (rank 0, with the store)\n", 100 * share);
  }
  watched.close();
  return 0;
}

}  // namespace
}  // namespace tessera

int main() {
  try {
    return tessera::run();
  } catch (const std::exception& error) {
    std::cerr << "watch_ranks: " << error.what() << '\n';
    return 1;
  }
}
