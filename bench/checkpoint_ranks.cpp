// One rank of a comparison with torch.distributed.checkpoint, which bench/checkpoints starts:
//
//   checkpoint_ranks all FOLDER
//
// The state of all ranks is 1 GiB. Rank 0 prints its figures as one line of JSON.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <sys/resource.h>

#include <filesystem>
#include <map>
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

/// One figure: a number per round.
struct Rounds {
  std::vector<double> seconds = {};  // Of the slowest rank.
  std::vector<double> cpu = {};      // Of all ranks together.
};

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double sum_over_ranks(double seconds, const World& world) {
  const at::Tensor own = at::full({1}, seconds, at::kDouble);
  return all_reduce(own, world.group()).wait().item<double>();
}

template <class Body>
void time_round(Rounds& rounds, const World& world, const Body& body) {
  barrier(world.group());
  const double cpu = cpu_seconds();
  const double start = bench::now();
  body();
  const double waited = bench::now() - start;
  const double used = cpu_seconds() - cpu;
  rounds.seconds.push_back(bench::slowest_rank(waited, world));
  rounds.cpu.push_back(sum_over_ranks(used, world));
}

Rounds copy_rounds(const World& world, const CheckpointEntries& entries) {
  std::vector<at::Tensor> copies;
  for (const CheckpointEntry& entry : entries) copies.push_back(at::empty_like(entry.tensor));
  const auto copy = [&] {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].copy_(entries[i].tensor);
  };
  copy();  // The first one waits for the pages.
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round) time_round(rounds, world, copy);
  return rounds;
}

void remove_on_first_rank(const World& world, const std::string& path) {
  barrier(world.group());
  if (world.rank() == GlobalRank{0}) std::filesystem::remove_all(path);
}

Json measure(const LaunchInfo&) {
  World world = World::connect();
  const std::string folder = std::filesystem::current_path() / "ours";
  const CheckpointEntries entries = state_of(world);
  std::map<std::string, Rounds> all;
  CheckpointSaver saver(world.group());
  for (int round = 0; round < kRounds; ++round) {
    const std::string path = concat(folder, "/", round);
    time_round(all["save"], world, [&] { save(path, entries, world.group()); });
    time_round(all["load"], world, [&] { load(path, entries, world.group()); });
    time_round(all["load, no checksums"], world, [&] { load(Checkpoint(path), entries); });
    remove_on_first_rank(world, path);
    Rounds first;  // The first one makes the host memory.
    Rounds& stall = round == 0 ? first : all["stall"];
    time_round(stall, world, [&] { saver.begin({.path = path + "-async"}, entries); });
    saver.finish();
    remove_on_first_rank(world, path + "-async");
  }
  all["copy"] = copy_rounds(world, entries);
  world.close();
  Json figures;
  for (const auto& [what, rounds] : all) {
    figures[what] = {{"seconds", rounds.seconds}, {"cpu", rounds.cpu}};
  }
  return figures;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::bench::rank_main({argv, static_cast<size_t>(argc)}, {{"all", tessera::measure}});
}
