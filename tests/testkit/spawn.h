#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::testkit {

/// How one rank ended.
struct RankEnd {
  int status = 0;      // As waitpid gives it.
  std::string output;  // stdout and stderr.

  bool succeeded() const { return status == 0; }
};

/// This very program, started once per rank, with torchrun's variables and these arguments and
/// variables. Whoever still runs at the end is killed.
class SpawnedRanks {
 public:
  SpawnedRanks(int64_t world_size, const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& variables = {});
  SpawnedRanks(SpawnedRanks&&) noexcept;
  ~SpawnedRanks();

  pid_t pid(int64_t rank) const;
  void signal(int64_t rank, int signal) const;
  /// What it has written so far.
  std::string output(int64_t rank) const;
  /// Waits until the rank has written this; false where it ended before, or the time is up.
  bool wait_for_output(int64_t rank, const std::string& text, std::chrono::milliseconds timeout);
  /// Waits for the rank's end; nothing where the time is up.
  std::optional<RankEnd> wait_for_end(int64_t rank, std::chrono::milliseconds timeout);
  /// How it ended, where it has.
  std::optional<int> status(int64_t rank);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Starts the ranks and waits for all. After the first failure, and when it takes too long, the
/// rest is killed.
std::vector<RankEnd> spawn_ranks(int64_t world_size, const std::vector<std::string>& arguments,
                                 const std::map<std::string, std::string>& variables = {});

}  // namespace tessera::testkit
