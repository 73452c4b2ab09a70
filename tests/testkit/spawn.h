#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::testkit {

/// How one rank ended.
struct RankEnd {
  int status = 0;      // As waitpid gives it.
  std::string output;  // stdout and stderr.

  bool succeeded() const { return status == 0; }
};

/// Starts this very program once per rank, with torchrun's variables and these arguments and
/// variables, and waits for all. After the first failure, and when it takes too long, the rest is
/// killed.
std::vector<RankEnd> spawn_ranks(int64_t world_size, const std::vector<std::string>& arguments,
                                 const std::map<std::string, std::string>& variables = {});

}  // namespace tessera::testkit
