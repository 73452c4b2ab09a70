// One rank of a comparison with torch.distributed.checkpoint, which bench/checkpoints starts:
//
//   checkpoint_ranks all FOLDER
//
// The state of all ranks is 1 GiB. Rank 0 prints its figures as one line of JSON.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/rank_timing.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/save.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kTensors = 32;
constexpr int64_t kRows = 4096;
constexpr int64_t kColumns = 2048;
constexpr int kRounds = 3;

// This rank's rows of each tensor.
CheckpointEntries state_of(const World& world) {
  CheckpointEntries entries;
  for (int64_t i = 0; i < kTensors; ++i) {
    const Part part = Part({kRows, kColumns}).cut(0, world.size(), world.rank().value);
    entries.emplace_back(concat("layers.", i, ".weight"), at::randn(part.box().shape), part);
  }
  return entries;
}

template <class Body>
double time_of(const World& world, const Body& body) {
  barrier(world.group());
  const double start = bench::now();
  body();
  return bench::slowest_rank(bench::now() - start, world);
}

double copy_time(const World& world, const CheckpointEntries& entries) {
  std::vector<at::Tensor> copies;
  for (const CheckpointEntry& entry : entries) copies.push_back(at::empty_like(entry.tensor));
  const auto copy = [&] {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].copy_(entries[i].tensor);
  };
  copy();  // The first one waits for the pages.
  return time_of(world, copy);
}

Json measure(const LaunchInfo&) {
  World world = World::connect();
  const std::string folder = std::filesystem::current_path() / "ours";
  const CheckpointEntries entries = state_of(world);
  double saved = 1e9, loaded = 1e9, unchecked = 1e9, stall = 1e9;
  CheckpointSaver saver(world.group());
  for (int round = 0; round < kRounds; ++round) {
    const std::string path = concat(folder, "/", round);
    saved = std::min(saved, time_of(world, [&] { save(path, entries, world.group()); }));
    loaded = std::min(loaded, time_of(world, [&] { load(path, entries, world.group()); }));
    unchecked = std::min(unchecked, time_of(world, [&] { load(Checkpoint(path), entries); }));
    const std::string later = path + "-async";
    const double waited = time_of(world, [&] { saver.begin({.path = later}, entries); });
    if (round > 0) stall = std::min(stall, waited);  // The first one makes the host memory.
    saver.finish();
    barrier(world.group());
    if (world.rank() == GlobalRank{0}) {
      std::filesystem::remove_all(path);
      std::filesystem::remove_all(later);
    }
  }
  const double copy = copy_time(world, entries);
  world.close();
  return {{"save", saved},
          {"load", loaded},
          {"load unchecked", unchecked},
          {"stall", stall},
          {"copy", copy}};
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::bench::rank_main({argv, static_cast<size_t>(argc)}, {{"all", tessera::measure}});
}
