#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>

#include "tessera/comm/collectives.h"
#include "tessera/comm/world.h"

/// What programs that are one rank of a comparison have in common.
namespace tessera::bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Through files, not through what is measured: a rank that starts late must not count as waiting.
inline void wait_at_start_line(const std::filesystem::path& folder, const LaunchInfo& launch) {
  std::ofstream(folder / std::to_string(launch.rank));
  const auto arrived = [&] {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  while (arrived() < launch.world_size) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

inline double slowest_rank(double seconds, const World& world) {
  const at::Tensor worst = at::full({1}, seconds, at::kDouble);
  return all_reduce(worst, world.group(), ReduceOp::kMax).wait().item<double>();
}

/// What a program can measure, by the word that asks for it.
using Measurements =
    std::map<std::string, std::function<nlohmann::ordered_json(const LaunchInfo&)>>;

/// The main function of `PROGRAM WHAT FOLDER`, one rank of those that meet in the folder: rank 0
/// prints the figures as one line of JSON.
inline int rank_main(std::span<char* const> arguments, const Measurements& known) {
  const std::string program = std::filesystem::path(arguments[0]).filename();
  const auto measurement = known.find(arguments.size() == 3 ? arguments[1] : "");
  if (measurement == known.end()) {
    std::cerr << "usage: " << program << " WHAT FOLDER; WHAT is one of";
    for (const auto& [what, measure] : known) std::cerr << ' ' << what;
    std::cerr << '\n';
    return 2;
  }
  try {
    const LaunchInfo launch = read_launch_info(process_environment());
    wait_at_start_line(arguments[2], launch);
    const nlohmann::ordered_json figures = measurement->second(launch);
    if (launch.rank == 0) std::cout << figures << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace tessera::bench
