// `tessera ranks --rank` on a million ranks, from start to end of the process: time and memory.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <string>
#include <vector>

extern char** environ;

namespace {

// The largest resident size of the finished process in MB, or -1 where it failed.
double run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  rusage usage{};
  if (error != 0 || wait4(pid, &status, 0, &usage) != pid || status != 0) return -1;
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void measure(benchmark::State& state, const std::vector<std::string>& flags) {
  std::vector<std::string> words{TESSERA_PROGRAM, "ranks"};
  words.insert(words.end(), flags.begin(), flags.end());
  double megabytes = 0;
  for (auto _ : state) {
    megabytes = std::max(megabytes, run(words));
    if (megabytes <= 0) state.SkipWithError("tessera ranks failed");
  }
  state.counters["peak_MB"] = megabytes;
}

const std::vector<std::string> kMillion{"--world", "1048576", "--tp", "8", "--pp",   "8",
                                        "--cp",    "2",       "--ep", "8", "--rank", "777777"};

void RanksVerbExample(benchmark::State& state) {
  measure(state, {});
}
BENCHMARK(RanksVerbExample)->Unit(benchmark::kMillisecond)->UseRealTime();

void RanksVerbMillion(benchmark::State& state) {
  measure(state, kMillion);
}
BENCHMARK(RanksVerbMillion)->Unit(benchmark::kMillisecond)->UseRealTime();

void RanksVerbMillionJson(benchmark::State& state) {
  std::vector<std::string> flags = kMillion;
  flags.emplace_back("--json");
  measure(state, flags);
}
BENCHMARK(RanksVerbMillionJson)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
