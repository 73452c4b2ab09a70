// Collectives through shared memory beside Gloo and memcpy, as one rank of several:
//
//   tessera run --nproc 2 -- shm_ranks
//
// Both engines take turns in one run, because machines are noisy. Every rank rewrites its tensor
// before each large operation (not timed): otherwise nothing would move between caches. Rank 0
// prints the medians of its times.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "bench/rank_timing.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/world.h"

namespace tessera {
namespace {

using bench::now;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Operation {
  std::string name;
  std::function<void(const at::Tensor&, const Group&)> run;
};

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all{
      {"all_reduce", [](const at::Tensor& x, const Group& g) { all_reduce(x, g).wait(); }},
      {"reduce_scatter", [](const at::Tensor& x, const Group& g) { reduce_scatter(x, g).wait(); }},
      {"all_gather",
       [](const at::Tensor& x, const Group& g) {
         all_gather(x.narrow(0, 0, x.size(0) / g.size()), g).wait();
       }},
      {"broadcast",
       [](const at::Tensor& x, const Group& g) { broadcast(x, GroupRank{0}, g).wait(); }},
      {"all_to_all", [](const at::Tensor& x, const Group& g) { all_to_all(x, g).wait(); }},
      {"send", [](const at::Tensor& x, const Group& g) {
         // There and back, so that both ends are timed.
         if (g.rank() == 0) {
           send(x, GroupRank{1}, g).wait();
           recv(x, GroupRank{1}, g).wait();
         } else if (g.rank() == 1) {
           recv(x, GroupRank{0}, g).wait();
           send(x, GroupRank{0}, g).wait();
         }
       }}};
  return all;
}

// Two worlds: a world decides when its first group connects.
World connect(const char* shared) {
  setenv("TESSERA_SHM", shared, 1);
  World world = World::connect({.backend = Backend::kGloo});
  barrier(world.group());
  return world;
}

void time_some(const std::function<void()>& body, const at::Tensor& tensor, const Group& group,
               int times, std::vector<double>& seconds) {
  for (int i = 0; i < times; ++i) {
    if (tensor.nbytes() >= 4096) tensor.add_(0);
    barrier(group);
    const double start = now();
    body();
    seconds.push_back(now() - start);
  }
}

void compare(const Operation& operation, int64_t bytes, const Group& memory, const Group& gloo) {
  const at::Tensor tensor = at::ones({std::max<int64_t>(bytes / 4, memory.size())});
  std::vector<char> from(static_cast<size_t>(bytes));
  std::vector<char> to(from);
  std::vector<double> by_memory;
  std::vector<double> by_gloo;
  std::vector<double> by_memcpy;
  const bool is_small = bytes <= 1 << 20;
  for (int turn = 0; turn < (is_small ? 5 : 3); ++turn) {
    time_some([&] { operation.run(tensor, memory); }, tensor, memory, is_small ? 200 : 3,
              by_memory);
    time_some([&] { operation.run(tensor, gloo); }, tensor, memory, is_small ? 20 : 2, by_gloo);
    time_some([&] { std::memcpy(to.data(), from.data(), from.size()); }, tensor, memory,
              is_small ? 20 : 2, by_memcpy);
  }
  const double ours = median(by_memory);
  const double theirs = median(by_gloo);
  if (memory.rank() == 0) {
    std::printf("%-15s %10ld bytes: %10.1f us, Gloo %10.1f us (%6.1f x), memcpy %8.1f us\n",
                operation.name.c_str(), bytes, 1e6 * ours, 1e6 * theirs, theirs / ours,
                1e6 * median(by_memcpy));
    std::fflush(stdout);
  }
}

int run(const std::vector<int64_t>& sizes) {
  World memory = connect("1");
  World gloo = connect("0");
  const Group group = memory.group();
  std::vector<double> barriers;
  for (int i = 0; i < 2000; ++i) {
    const double start = now();
    barrier(group);
    barriers.push_back(now() - start);
  }
  if (group.rank() == 0)
    std::printf("%ld ranks, barrier %.1f us\n", group.size(), 1e6 * median(barriers));
  // One after the other without a barrier between them, as a program calls them.
  const at::Tensor small = at::ones({1024});
  std::vector<double> blocks;
  for (int block = 0; block < 20; ++block) {
    const double start = now();
    for (int i = 0; i < 500; ++i) all_reduce(small, group).wait();
    blocks.push_back((now() - start) / 500);
  }
  if (group.rank() == 0)
    std::printf("all_reduce of 4 KiB back to back: %.2f us\n", 1e6 * median(blocks));
  for (const Operation& operation : operations()) {
    for (const int64_t bytes : sizes) compare(operation, bytes, group, gloo.group());
  }
  gloo.close();
  memory.close();
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    std::vector<int64_t> sizes;
    for (int i = 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
    if (sizes.empty()) sizes = {8, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
    return tessera::run(sizes);
  } catch (const std::exception& error) {
    std::cerr << "shm_ranks: " << error.what() << '\n';
    return 1;
  }
}
