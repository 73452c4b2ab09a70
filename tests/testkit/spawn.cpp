#include "tests/testkit/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tessera/launch/socket.h"
#include "tests/testkit/temporary_folder.h"

extern char** environ;

namespace tessera::testkit {
namespace {

constexpr std::chrono::seconds kTestTimeout{240};  // Enough for eight sanitized ranks on two cores.

constexpr std::chrono::seconds kExitGrace{8};

std::vector<std::string> environment_of(int64_t rank, int64_t world_size, int64_t port,
                                        const std::map<std::string, std::string>& extra) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  const auto set = [&](const std::string& name, const std::string& value) {
    std::erase_if(variables, [&](const std::string& v) { return v.starts_with(name + "="); });
    variables.push_back(name + "=" + value);
  };
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(world_size));
  set("LOCAL_WORLD_SIZE", std::to_string(world_size));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port));
  set("OMP_NUM_THREADS", "1");
  // LibTorch resolves the name of every address that it connects to; a name server that does not
  // answer would cost five seconds each time.
  set("RES_OPTIONS", "timeout:1 attempts:1");
  for (const auto& [name, value] : extra) set(name, value);
  return variables;
}

struct Rank {
  pid_t pid = 0;
  std::string log;
  std::optional<int> status;
};

Rank start(const std::vector<std::string>& given, std::vector<std::string> variables,
           const std::string& log) {
  std::vector<std::string> words{"/proc/self/exe"};
  words.insert(words.end(), given.begin(), given.end());
  std::vector<char*> arguments;
  std::vector<char*> environment;
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& variable : variables) environment.push_back(variable.data());
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  Rank started;
  started.log = log;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, started.log.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int error = posix_spawn(&started.pid, words[0].c_str(), &actions, nullptr, arguments.data(),
                                environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("a rank could not be started");
  return started;
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::move(text).str();
}

template <typename Condition>
bool poll_until(Condition condition, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace

struct SpawnedRanks::State {
  PortReservation port{"127.0.0.1"};
  TemporaryFolder folder;
  std::vector<Rank> ranks;

  Rank& at(int64_t rank) { return ranks.at(static_cast<size_t>(rank)); }
};

SpawnedRanks::SpawnedRanks(int64_t world_size, const std::vector<std::string>& arguments,
                           const std::map<std::string, std::string>& variables)
    : state_(std::make_unique<State>()) {
  std::map<std::string, std::string> all = variables;
  all.emplace("TESSERA_TRACE_DIR", state_->folder.path());
  for (int64_t rank = 0; rank < world_size; ++rank) {
    state_->ranks.push_back(start(arguments,
                                  environment_of(rank, world_size, state_->port.port(), all),
                                  state_->folder.path("rank" + std::to_string(rank))));
  }
}

SpawnedRanks::SpawnedRanks(SpawnedRanks&&) noexcept = default;

SpawnedRanks::~SpawnedRanks() {
  if (!state_) return;
  for (Rank& rank : state_->ranks) {
    if (rank.status) continue;
    kill(rank.pid, SIGKILL);
    waitpid(rank.pid, nullptr, 0);
  }
}

pid_t SpawnedRanks::pid(int64_t rank) const {
  return state_->at(rank).pid;
}

void SpawnedRanks::signal(int64_t rank, int signal) const {
  kill(pid(rank), signal);
}

std::string SpawnedRanks::output(int64_t rank) const {
  return read(state_->at(rank).log);
}

std::optional<int> SpawnedRanks::status(int64_t rank) {
  Rank& one = state_->at(rank);
  int status = 0;
  if (!one.status && waitpid(one.pid, &status, WNOHANG) == one.pid) one.status = status;
  return one.status;
}

bool SpawnedRanks::wait_for_output(int64_t rank, const std::string& text,
                                   std::chrono::milliseconds timeout) {
  const auto written = [&] { return output(rank).find(text) != std::string::npos; };
  poll_until([&] { return written() || status(rank); }, timeout);
  return written();
}

std::optional<RankEnd> SpawnedRanks::wait_for_end(int64_t rank, std::chrono::milliseconds timeout) {
  if (!poll_until([&] { return status(rank).has_value(); }, timeout)) return std::nullopt;
  return RankEnd{*status(rank), output(rank)};
}

std::vector<RankEnd> spawn_ranks(int64_t world_size, const std::vector<std::string>& arguments,
                                 const std::map<std::string, std::string>& variables) {
  SpawnedRanks ranks(world_size, arguments, variables);
  const auto num_ended = [&](bool well) {
    int64_t count = 0;
    for (int64_t rank = 0; rank < world_size; ++rank) {
      const auto status = ranks.status(rank);
      if (status && (!well || *status == 0)) ++count;
    }
    return count;
  };
  poll_until([&] { return num_ended(false) == world_size || num_ended(false) > num_ended(true); },
             kTestTimeout);
  // After a failure, give the other ranks time to report it.
  poll_until([&] { return num_ended(false) == world_size; }, kExitGrace);
  std::vector<RankEnd> ends;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    if (!ranks.status(rank)) ranks.signal(rank, SIGKILL);
    ends.push_back(*ranks.wait_for_end(rank, kTestTimeout));
  }
  return ends;
}

}  // namespace tessera::testkit
