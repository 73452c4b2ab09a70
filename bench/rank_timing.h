#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
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

}  // namespace tessera::bench
