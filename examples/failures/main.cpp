// Fails on purpose, to show Tessera's error messages: docs/debugging-hangs.md explains each.
//
//   tessera run --nproc 4 -- failures steady|die|throw|hang|mismatch|busy [TIMEOUT-SECONDS]
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <csignal>
#include <iostream>
#include <string>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/world.h"

namespace {

using namespace tessera;

// Each rank runs all-reduces forever; rank 1 does something else after a while.
void train(World& world, const std::string& how) {
  const Group all = world.group();
  const RankGroup ranks(all.ranks().begin(), all.ranks().end());
  const Group dp = world.group(ranks, {.name = "dp", .lane = Lane::kReduce});
  barrier(all);
  for (int step = 1;; ++step) {
    const bool odd = world.rank().value == 1 && step == 20;
    if (odd && how == "die") std::raise(SIGKILL);
    if (odd && how == "throw") throw ConfigError("the learning rate is negative");
    if (odd && how == "hang") barrier(all);
    if (odd && how == "busy") std::this_thread::sleep_for(std::chrono::hours(1));
    all_reduce(at::ones({odd && how == "mismatch" ? 512 : 1024}), dp).wait();
    if (step == 1) std::cout << concat("rank ", world.rank(), " trains\n") << std::flush;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: failures steady|die|throw|hang|mismatch|busy [TIMEOUT-SECONDS]\n";
    return 2;
  }
  try {
    const std::chrono::seconds timeout(argc > 2 ? std::stoll(argv[2]) : 600);
    World world = World::connect({.backend = Backend::kGloo, .timeout = timeout});
    train(world, argv[1]);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
