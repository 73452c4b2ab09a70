// Collectives through shared memory beside Gloo and memcpy, as one rank of several:
//
//   tessera run --nproc 2 -- shm_ranks [BYTES…]
//
// Both engines take turns in one run, because machines are noisy. Every rank rewrites its tensor
// before each large operation (not timed): otherwise nothing would move between caches. Rank 0
// prints the medians of its times, in microseconds, one JSON object a line; bench/shared_memory
// makes a table of them.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/rank_timing.h"
#include "tessera/comm/buffers.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/world.h"

namespace tessera {
namespace {

using bench::now;
using nlohmann::ordered_json;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Operation {
  std::string name;
  std::function<void(const at::Tensor&, const Group&)> run;
  bool takes_share = false;  // Its input has one rank's share of the bytes.
};

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all{
      {"all_reduce", [](const at::Tensor& x, const Group& g) { all_reduce(x, g).wait(); }},
      {"reduce_scatter", [](const at::Tensor& x, const Group& g) { reduce_scatter(x, g).wait(); }},
      {"all_gather", [](const at::Tensor& x, const Group& g) { all_gather(x, g).wait(); }, true},
      {"broadcast",
       [](const at::Tensor& x, const Group& g) { broadcast(x, GroupRank{0}, g).wait(); }},
      {"all_to_all", [](const at::Tensor& x, const Group& g) { all_to_all(x, g).wait(); }},
      {"send and back", [](const at::Tensor& x, const Group& g) {
         // So that both ends are timed.
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

void print(const Group& group, const ordered_json& row) {
  if (group.rank() == 0) std::cout << row << std::endl;
}

void compare(const Operation& operation, const at::Tensor& tensor, int64_t bytes, bool in_buffer,
             const Group& memory, const Group& gloo) {
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
  print(memory, {{"ranks", memory.size()},
                 {"operation", operation.name},
                 {"bytes", bytes},
                 {"in_buffer", in_buffer},
                 {"us", 1e6 * median(by_memory)},
                 {"gloo_us", 1e6 * median(by_gloo)},
                 {"memcpy_us", 1e6 * median(by_memcpy)}});
}

void compare_all(int64_t bytes, const Group& memory, const Group& gloo) {
  constexpr int64_t kLarge = 1 << 20;
  for (const Operation& operation : operations()) {
    const int64_t share = operation.takes_share ? memory.size() : 1;
    const int64_t count = std::max<int64_t>(bytes / 4, memory.size()) / share;
    compare(operation, at::ones({count}), bytes, false, memory, gloo);
    if (bytes < kLarge) continue;
    compare(operation, empty_buffer({count}, at::kFloat, memory).fill_(1), bytes, true, memory,
            gloo);
  }
}

// One after the other without anything between them, as a program calls them.
void time_in_a_row(const std::string& name, int times, const Group& group,
                   const std::function<void()>& body) {
  std::vector<double> blocks;
  for (int block = 0; block < 20; ++block) {
    const double start = now();
    for (int i = 0; i < times; ++i) body();
    blocks.push_back((now() - start) / times);
  }
  print(group, {{"ranks", group.size()}, {"operation", name}, {"us", 1e6 * median(blocks)}});
}

int run(const std::vector<int64_t>& sizes) {
  World memory = connect("1");
  World gloo = connect("0");
  const Group group = memory.group();
  const at::Tensor small = at::ones({1024});
  time_in_a_row("barrier", 200, group, [&] { barrier(group); });
  time_in_a_row("all_reduce of 4 KiB in a row", 500, group,
                [&] { all_reduce(small, group).wait(); });
  for (const int64_t bytes : sizes) compare_all(bytes, group, gloo.group());
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
