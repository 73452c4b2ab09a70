#include "tests/testkit/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tessera/launch/socket.h"

extern char** environ;

namespace tessera::testkit {
namespace {

constexpr std::chrono::seconds kTestTimeout{
    240};  // Eight ranks on two cores, sanitized, with room to spare.

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

bool succeeded(const Rank& rank) {
  return rank.status && WIFEXITED(*rank.status) && WEXITSTATUS(*rank.status) == 0;
}

// Waits for all; after the first failure, and after the time is up, the rest is killed.
void wait_for(std::vector<Rank>& ranks) {
  const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
  for (size_t ended = 0; ended < ranks.size();) {
    ended = 0;
    bool kill_rest = std::chrono::steady_clock::now() > deadline;
    for (Rank& rank : ranks) {
      int status = 0;
      if (!rank.status && waitpid(rank.pid, &status, WNOHANG) == rank.pid) rank.status = status;
      if (rank.status) ++ended;
      if (rank.status && !succeeded(rank)) kill_rest = true;
    }
    if (ended == ranks.size()) break;
    if (kill_rest) {
      std::this_thread::sleep_for(
          std::chrono::seconds(2));  // So that the others can say what they saw.
      for (const Rank& rank : ranks) {
        if (!rank.status) kill(rank.pid, SIGKILL);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::move(text).str();
}

}  // namespace

std::vector<RankEnd> spawn_ranks(int64_t world_size, const std::vector<std::string>& arguments,
                                 const std::map<std::string, std::string>& variables) {
  std::string folder = (std::filesystem::temp_directory_path() / "ranks-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make " + folder);
  const PortReservation port("127.0.0.1");
  std::vector<Rank> ranks;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    ranks.push_back(start(arguments, environment_of(rank, world_size, port.port(), variables),
                          folder + "/rank" + std::to_string(rank)));
  }
  wait_for(ranks);
  std::vector<RankEnd> ends;
  for (const Rank& rank : ranks) ends.push_back({rank.status.value_or(-1), read(rank.log)});
  std::filesystem::remove_all(folder);
  return ends;
}

}  // namespace tessera::testkit
