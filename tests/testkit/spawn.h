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
  int status = 0;      // From waitpid.
  std::string output;  // stdout and stderr.

  bool succeeded() const { return status == 0; }
};

/// Starts this test program once per rank, with torchrun's variables and these arguments and
/// variables. The destructor kills the ranks that still run.
class SpawnedRanks {
 public:
  SpawnedRanks(int64_t world_size, const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& variables = {});
  SpawnedRanks(SpawnedRanks&&) noexcept;
  ~SpawnedRanks();

  pid_t pid(int64_t rank) const;
  void signal(int64_t rank, int signal) const;
  /// The output of a rank so far.
  std::string output(int64_t rank) const;
  /// Waits until the rank has written this; false if it ended before, or on timeout.
  bool wait_for_output(int64_t rank, const std::string& text, std::chrono::milliseconds timeout);
  /// Waits for the end of the rank; empty on timeout.
  std::optional<RankEnd> wait_for_end(int64_t rank, std::chrono::milliseconds timeout);
  /// How the rank ended; empty while it runs.
  std::optional<int> status(int64_t rank);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Starts the ranks and waits for all. After the first failure, or on timeout, kills the others.
std::vector<RankEnd> spawn_ranks(int64_t world_size, const std::vector<std::string>& arguments,
                                 const std::map<std::string, std::string>& variables = {});

}  // namespace tessera::testkit
