// Runs of `tessera train` that lose ranks, are stopped, and go on by themselves. The moments are
// random; TESSERA_SEED repeats those of a failure.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "tessera/base/text.h"
#include "tests/testkit/background.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Background;
using testkit::Finished;
using testkit::TemporaryFolder;

constexpr int kResume = 75;

int rounds(int usual, int soak) {
  return std::getenv("TESSERA_SOAK") == nullptr ? usual : soak;
}

uint64_t seed() {
  const char* const given = std::getenv("TESSERA_SEED");
  const uint64_t value =
      given == nullptr ? std::random_device()() : std::strtoull(given, nullptr, 10);
  std::cout << "TESSERA_SEED=" << value << "\n";
  return value;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

// The process of a rank of this launcher; nothing while it does not run.
std::optional<pid_t> process_of(pid_t launcher, int rank) {
  const std::string mark = concat('\0', "RANK=", rank, '\0');
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto pid = to_integer(entry.path().filename().native());
    if (!pid) continue;
    const std::string status = content_of(entry.path() / "stat");
    const size_t name_end = status.rfind(") ");
    if (name_end == std::string::npos) continue;
    const bool child = split(status.substr(name_end + 2), ' ').at(1) == std::to_string(launcher);
    if (child && (std::string(1, '\0') + content_of(entry.path() / "environ")).find(mark) !=
                     std::string::npos) {
      return static_cast<pid_t>(*pid);
    }
  }
  return std::nullopt;
}

class Restarted : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string run_ = folder_.path("run");
  const std::string tokens_ = folder_.file("tokens.bin", [] {
    std::string bytes;
    for (int i = 0; i < 4000; ++i) bytes += {static_cast<char>((i * 7 + i / 13) % 40), '\0'};
    return bytes;
  }());

  std::string train(const std::string& run, const std::string& more) const {
    return concat(" train --model ", TESSERA_GOLDEN_DIR, "/llama/untied --data ", tokens_,
                  " --batch 4 --seq 8 --lr 1e-2 --optim.schedule=constant --threads 1 --dtype fp64 "
                  "--run-dir ",
                  run, " ", more);
  }
  static std::vector<std::string> words_of(const std::string& arguments) {
    std::vector<std::string> words{TESSERA_PROGRAM};
    for (const std::string_view word : split(arguments, ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
    return words;
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> losses;
    std::ifstream file(run + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json step = json::parse(line);
      EXPECT_EQ(step["step"], losses.size()) << "each step once";
      losses.push_back(step["loss"]);
    }
    return losses;
  }
  // The losses of a run of the same layout that nothing disturbs.
  std::vector<double> undisturbed(size_t steps, const std::string& layout) const {
    const std::string run = folder_.path("undisturbed");
    const Finished result =
        testkit::run(TESSERA_PROGRAM + train(run, concat("--steps ", steps, " ", layout)));
    EXPECT_EQ(result.code, 0) << result.err;
    return losses(run);
  }
};

void pause_up_to(std::chrono::milliseconds most, std::mt19937_64& random) {
  std::this_thread::sleep_for(std::chrono::milliseconds(random() % (most.count() + 1)));
}

TEST_F(Restarted, RanksThatAreKilledAndStoppedDoNotChangeTheCurve) {
  std::mt19937_64 random(seed());
  std::vector<int> faults(static_cast<size_t>(rounds(3, 30)), SIGKILL);
  faults.insert(faults.end(), static_cast<size_t>(rounds(3, 5)), SIGSTOP);
  std::ranges::shuffle(faults, random);
  const std::string layout = "--dp 2 --dp-type fsdp";
  Background run(words_of(train(run_, concat("--steps 1000000 --save-every 5 --max-restarts ",
                                             faults.size(), " ", layout))),
                 {{"TESSERA_SILENCE_SECONDS", "2"}});
  run.await("step 1/");
  for (size_t i = 0; i < faults.size(); ++i) {
    // Mostly while it trains and saves, sometimes while it starts.
    if (faults[i] == SIGSTOP || random() % 4 != 0) {
      run.await("saved ", count_of(run.seen().err, "saved ") + 1 + random() % 3);
    }
    pause_up_to(std::chrono::milliseconds(500), random);
    const int rank = static_cast<int>(random() % 2);
    std::optional<pid_t> victim;
    while (!victim) victim = process_of(run.pid(), rank);
    kill(*victim, faults[i]);
    run.await(concat("restart ", i + 1, " of ", faults.size()));
  }
  run.await("saved ", count_of(run.seen().err, "saved ") + 1);
  run.signal(SIGTERM);
  const Finished end = run.finish();
  EXPECT_EQ(end.code, kResume) << end.err;
  EXPECT_TRUE(run.leaves_nobody());
  const std::vector<double> disturbed = losses(run_);
  EXPECT_EQ(disturbed, undisturbed(disturbed.size(), layout));
}

TEST_F(Restarted, AfterSigtermTheSameCommandResumes) {
  const std::string more = "--save-every 100000 --resume --run.save=true --dp 2 --steps ";
  for (const bool to_one_rank : {false, true}) {
    SCOPED_TRACE(to_one_rank);
    fs::remove_all(run_);
    Background run(words_of(train(run_, more + "1000000 --max-restarts 3")));
    run.await("step 1/");
    if (to_one_rank) {  // As a scheduler that knows only processes does.
      kill(process_of(run.pid(), 1).value(), SIGTERM);
    } else {
      run.signal(SIGTERM);
    }
    const Finished end = run.finish();
    EXPECT_EQ(end.code, kResume) << end.err;
    EXPECT_NE(end.err.find("run the same command again to resume"), std::string::npos) << end.err;
    EXPECT_NE(end.out.find("with --resume continues the run"), std::string::npos) << end.out;
    EXPECT_FALSE(fs::exists(run_ + "/model")) << "a scheduler does not wait for it";
    const size_t done = losses(run_).size();
    EXPECT_GT(done, 0U);
    const Finished rest = testkit::run(TESSERA_PROGRAM + train(run_, concat(more, done + 2)));
    EXPECT_EQ(rest.code, 0) << rest.err;
    EXPECT_EQ(losses(run_), undisturbed(done + 2, "--dp 2 --overwrite"));
  }
}

TEST_F(Restarted, ASingleRankIsRestartedToo) {
  Background run(words_of(train(run_, "--nproc 1 --steps 1000000 --max-restarts 2 --overwrite")));
  run.await("step 1/");
  kill(process_of(run.pid(), 0).value(), SIGKILL);  // There is no checkpoint yet.
  run.await("restart 1 of 2");
  run.await("into " + run_, 2);
  run.await("step 1/", 2);
  EXPECT_EQ(run.seen().err.find("resumed after"), std::string::npos);
  run.signal(SIGUSR1);
  run.await("SIGUSR1: rank 0: outside of operations");
  run.signal(SIGTERM);
  EXPECT_EQ(run.finish().code, 128 + SIGTERM) << "nothing was saved";
}

TEST_F(Restarted, RestartsNeedARunDirectory) {
  for (const char* const start : {" train --nproc 1 --max-restarts 1",
                                  " run --max-restarts 1 -- " TESSERA_PROGRAM " train --nproc 1"}) {
    const Finished result =
        testkit::run(concat("cd ", folder_.path(), "; ", TESSERA_PROGRAM, start));
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_NE(result.err.find("--max-restarts 1 needs --run-dir"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace tessera
