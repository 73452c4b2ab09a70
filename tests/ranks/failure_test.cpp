// Ranks that die, stop and hang: the others report which rank, where and when, and end. The test
// starts the ranks without a launcher, whose signals would come first.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/comm/world.h"
#include "tessera/parallel/ddp/ddp.h"
#include "tessera/parallel/pipeline/pipeline.h"
#include "tessera/schedule/generate.h"
#include "tests/ranks/replica.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/spawn.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testkit::contains;
using testkit::SpawnedRanks;

constexpr const char* kScene = "TESSERA_TEST_SCENE";
constexpr int64_t kWorldSize = 4;
constexpr int kRaised = 7;               // Exit code of a rank that reported a CommError.
constexpr seconds kPromised{10};         // How soon the others must have ended.
constexpr const char* kLong = "600000";  // Milliseconds, for timeouts that must not expire.
constexpr const char* kStartTimeout =
    "2500";  // A rank that dies before it connects is missed after this.

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void say(const std::string& text) {
  std::cout << text << std::endl;  // At once: the test reads it.
}

// ---- What the ranks do

[[noreturn]] void reduce_for_ever(const Group& group) {
  const at::Tensor tensor = at::ones({1 << 18});
  for (;;) all_reduce(tensor, group).wait();
}

[[noreturn]] void train_for_ever(const Group& group) {
  const testkit::Replica replica(at::kFloat, 0, 30);
  const Ddp ddp({replica.parameters}, group, {.bucket_bytes = 1});
  const at::Tensor rows = at::ones({4, testkit::Replica::kWidth});
  replica.loss(rows).backward();
  say("ready");
  for (;;) replica.loss(rows).backward();
}

[[noreturn]] void step_for_ever(World& world) {
  const Schedule schedule = generate({.pp = kWorldSize, .microbatches = 8});
  Stage stage{.index = world.rank().value,
              .forward = [](const Tensors& x, const StagePass&) { return Tensors{x[0] * 2}; }};
  const auto loss = [](const Tensors& outputs, const at::Tensor&) { return outputs[0].mean(); };
  Pipeline pipeline({stage}, schedule, world.group(), {.loss = loss});
  const at::Tensor batch = at::ones({1 << 12, 16}).requires_grad_();
  for (;;) pipeline.step({.inputs = {batch}, .target = batch});
}

void play(const std::string& scene, World& world) {
  const Group all = world.group();
  const Group dp = world.group(to_ranks({0, 1, 2, 3}), {.name = "dp", .lane = Lane::kReduce});
  const bool victim = variable("TESSERA_TEST_VICTIM") == std::to_string(world.rank().value);
  barrier(all);
  barrier(dp);
  if (scene == "train") train_for_ever(dp);
  say("ready");
  if (scene == "reduce") reduce_for_ever(dp);
  if (scene == "pipeline") step_for_ever(world);
  if (scene == "recv") {
    at::Tensor tensor = at::zeros({8});
    const GroupRank next{(world.rank().value + 1) % kWorldSize};
    recv(tensor, next, dp).wait();  // No rank sends.
  }
  if (scene == "device") wait_until(dp, "the loss of a step", [] { return false; });
  if (scene == "shutdown") {
    if (victim) std::this_thread::sleep_for(seconds(30));
    world.close();
  }
  if (scene == "elsewhere") {
    all_reduce(at::ones({4}), dp).wait();
    if (victim) barrier(all);
    all_reduce(at::ones({4}), dp).wait();
  }
  if (scene == "early") {  // What a rank has no part in may take longer than the silence.
    const auto compute = [] { std::this_thread::sleep_for(seconds(4)); };
    if (victim) compute();
    gather(at::ones({4}), GroupRank{0}, dp).wait();
    at::Tensor message = at::ones({4});
    if (victim) compute();
    if (victim) send(message, GroupRank{0}, dp).wait();
    if (world.rank().value == 0) recv(message, GroupRank{2}, dp).wait();
    world.close();
  }
  if (scene == "leaves") {
    for (int batch = 0; batch < (victim ? 2 : 3); ++batch) all_reduce(at::ones({4}), dp).wait();
    world.close();
  }
  if (scene == "throws" && victim) throw ConfigError("this rank has a bug");
  if (scene == "throws") barrier(all);
}

milliseconds duration(const char* name) {
  return milliseconds(std::stoll(variable(name)));
}

// Runs the scene as one rank; the process ends here.
[[noreturn]] void play_as_rank(const std::string& scene) {
  int code = 0;
  try {
    World world = World::connect({.backend = Backend::kGloo,
                                  .timeout = duration("TESSERA_TEST_TIMEOUT"),
                                  .start_timeout = duration("TESSERA_TEST_START_TIMEOUT")});
    play(scene, world);
  } catch (const CommError& error) {
    say(concat("raised: ", error.what()));
    code = kRaised;
  } catch (const std::exception& error) {
    say(concat("another error: ", error.what()));
    code = 1;
  }
  std::exit(code);
}

// ---- What the test sees

SpawnedRanks start(const std::string& scene, int64_t victim,
                   std::map<std::string, std::string> variables = {}) {
  variables[kScene] = scene;
  variables["TESSERA_TEST_VICTIM"] = std::to_string(victim);
  variables.emplace("TESSERA_TEST_TIMEOUT", kLong);
  variables.emplace("TESSERA_TEST_START_TIMEOUT", kLong);
  return {kWorldSize, {}, variables};
}

bool all_ready(SpawnedRanks& ranks) {
  for (int64_t rank = 0; rank < kWorldSize; ++rank) {
    if (!ranks.wait_for_output(rank, "ready\n", seconds(60))) return false;
  }
  return true;
}

// The other ranks throw within the promised time; returns their errors, in rank order.
std::vector<std::string> what_the_others_say(SpawnedRanks& ranks, int64_t victim) {
  const auto deadline = std::chrono::steady_clock::now() + kPromised;
  std::vector<std::string> said;
  for (int64_t rank = 0; rank < kWorldSize; ++rank) {
    if (rank == victim) continue;
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto end = ranks.wait_for_end(rank, left);
    EXPECT_TRUE(end.has_value()) << "rank " << rank << " hangs:\n" << ranks.output(rank);
    if (!end) continue;
    EXPECT_TRUE(WIFEXITED(end->status) && WEXITSTATUS(end->status) == kRaised)
        << "rank " << rank << " ended with status " << end->status << ":\n"
        << end->output;
    const size_t at = end->output.find("raised: ");
    EXPECT_NE(at, std::string::npos) << end->output;
    if (at != std::string::npos) said.push_back(end->output.substr(at));
  }
  return said;
}

// The error names the missing rank, or rank 0 as the host of the store.
bool names(const std::string& said, int64_t victim) {
  const std::regex listed(concat("ranks? ([0-9]+, )*", victim, "\\b"));
  return std::regex_search(said, listed) &&
         (contains(said, "went missing") || contains(said, "no heartbeat") ||
          contains(said, "ended without closing") ||
          (victim == 0 && contains(said, "holds the store")) ||
          (victim == 0 && contains(said, "cannot reach the store of rank 0")) ||
          (victim == 0 && contains(said, "could not connect to rank 0")));
}

int num_rounds() {
  return variable("TESSERA_SOAK").empty() ? 5 : 50;
}

std::mt19937& random_numbers() {
  static std::mt19937 generator(std::random_device{}());
  return generator;
}

int64_t random_below(int64_t end) {
  return std::uniform_int_distribution<int64_t>(0, end - 1)(random_numbers());
}

/// A world whose victim dies at a random moment.
struct Round {
  int64_t victim = random_below(kWorldSize);
  milliseconds moment{0};
  std::unique_ptr<SpawnedRanks> ranks;
  std::set<std::string> segments = {};  // Memory that its ranks shared before the kill.
  std::vector<std::string> said;
};

struct Kills {
  std::string scene;
  bool when_ready = true;  // Otherwise at startup.
  int64_t longest_ms = 0;  // The random moment is within this time.
  int at_once = 5;
  std::map<std::string, std::string> variables = {};
};

// The memory that the process shares with others, by its inode.
std::set<std::string> segments_of(const std::string& pid) {
  std::set<std::string> segments;
  std::ifstream maps(concat("/proc/", pid, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    std::string inode;
    std::string path;
    std::istringstream(line) >> path >> path >> path >> path >> inode >> path;
    if (path.starts_with("/memfd:tessera")) segments.insert(inode);
  }
  return segments;
}

// A few rounds run in parallel, because a round mostly waits.
void kill_in_rounds(const Kills& kills, const std::function<void(const Round&)>& check) {
  for (int first = 0; first < num_rounds(); first += kills.at_once) {
    std::vector<std::thread> threads;
    std::vector<Round> rounds(static_cast<size_t>(kills.at_once));
    for (Round& round : rounds) {
      round.moment = milliseconds(random_below(kills.longest_ms));
      round.ranks =
          std::make_unique<SpawnedRanks>(start(kills.scene, round.victim, kills.variables));
      threads.emplace_back([&round, &kills] {
        if (kills.when_ready) {
          EXPECT_TRUE(all_ready(*round.ranks)) << round.ranks->output(0);
          round.segments = segments_of(std::to_string(round.ranks->pid(0)));
        }
        std::this_thread::sleep_for(round.moment);
        round.ranks->signal(round.victim, SIGKILL);
        round.said = what_the_others_say(*round.ranks, round.victim);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Round& round : rounds) {
      SCOPED_TRACE(
          concat("rank ", round.victim, " was killed after ", round.moment.count(), " ms"));
      EXPECT_EQ(round.said.size(), kWorldSize - 1U);
      check(round);
    }
  }
}

// Neither a name in /dev/shm nor a process that keeps memory of the round.
bool leaves_a_segment(const Round& round) {
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    if (contains(file.path().string(), "tessera")) return true;
  }
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    for (const std::string& segment : segments_of(process.path().filename())) {
      if (round.segments.contains(segment)) return true;
    }
  }
  return false;
}

TEST(LostRanks, AKillDuringAnAllReduceIsReported) {
  const bool by_memory = variable("TESSERA_SHM") != "0";
  kill_in_rounds({.scene = "reduce", .longest_ms = 1000}, [&](const Round& round) {
    EXPECT_EQ(round.segments.size(), by_memory ? 2U + kWorldSize : 0U)
        << "of the two groups, and each rank's buffers";
    EXPECT_FALSE(leaves_a_segment(round));
    for (const std::string& said : round.said) {
      EXPECT_TRUE(contains(said, "all_reduce #") && contains(said, " of group dp failed after ") &&
                  contains(said, " ms: ") && names(said, round.victim))
          << said;
    }
  });
}

TEST(LostRanks, AKillDuringABackwardPassIsReported) {
  kill_in_rounds({.scene = "train", .longest_ms = 1000}, [](const Round& round) {
    for (const std::string& said : round.said) {
      EXPECT_TRUE(contains(said, "all_reduce #") && contains(said, " of group dp failed after ") &&
                  names(said, round.victim))
          << said;
    }
  });
}

TEST(LostRanks, AKillAtStartupIsReported) {
  // One world at a time: the start timeout is short here.
  kill_in_rounds({.scene = "reduce",
                  .when_ready = false,
                  .longest_ms = 700,
                  .at_once = 1,
                  .variables = {{"TESSERA_TEST_START_TIMEOUT", kStartTimeout}}},
                 [](const Round& round) {
                   for (const std::string& said : round.said)
                     EXPECT_TRUE(names(said, round.victim)) << said;
                 });
}

TEST(LostRanks, AKillDuringShutdownIsReported) {
  kill_in_rounds({.scene = "shutdown", .longest_ms = 500}, [](const Round& round) {
    for (const std::string& said : round.said) {
      EXPECT_TRUE(contains(said, "close of the world failed after ") && names(said, round.victim))
          << said;
    }
  });
}

// As they do for a GPU that waits for the lost rank.
TEST(LostRanks, AKillWhileOthersWaitForTheirDeviceIsReported) {
  SpawnedRanks ranks = start("device", 2);
  ASSERT_TRUE(all_ready(ranks));
  ranks.signal(2, SIGKILL);
  for (const std::string& said : what_the_others_say(ranks, 2)) {
    EXPECT_TRUE(contains(said, "the loss of a step failed after ") && names(said, 2)) << said;
  }
}

TEST(LostRanks, AKillWhileOthersWaitForAMessageIsReported) {
  SpawnedRanks ranks = start("recv", 2);
  ASSERT_TRUE(all_ready(ranks));
  ranks.signal(2, SIGKILL);
  for (const std::string& said : what_the_others_say(ranks, 2)) {
    EXPECT_TRUE(contains(said, "recv #1 of group dp failed after ") && names(said, 2)) << said;
  }
}

TEST(LostRanks, AKillDuringAPipelineStepIsReported) {
  kill_in_rounds({.scene = "pipeline", .longest_ms = 1000}, [](const Round& round) {
    for (const std::string& said : round.said) {
      EXPECT_TRUE(contains(said, " of group world failed after ") && names(said, round.victim))
          << said;
    }
  });
}

TEST(LostRanks, ARankThatThrowsIsReported) {
  SpawnedRanks ranks = start("throws", 3);
  for (const std::string& said : what_the_others_say(ranks, 3)) {
    EXPECT_TRUE(contains(said, "barrier #2 of group world failed after ") &&
                contains(said, "rank 3 (pid ") && contains(said, "ended without closing its world"))
        << said;
  }
}

// With one batch less than the others.
TEST(LostRanks, ARankThatClosesItsWorldTooEarlyIsReported) {
  SpawnedRanks ranks = start("leaves", 1);
  for (const std::string& said : what_the_others_say(ranks, 1)) {
    EXPECT_TRUE(contains(said, "all_reduce #4 of group dp failed after ") &&
                contains(said, "rank 1 (pid ") &&
                contains(said, "is in close() and will not call all_reduce #4 of group dp"))
        << said;
  }
  const auto end = ranks.wait_for_end(1, kPromised);
  ASSERT_TRUE(end.has_value()) << ranks.output(1);
  EXPECT_TRUE(contains(end->output, "close of the world failed after ") &&
              contains(end->output, "will not call all_reduce #4 of group dp"))
      << end->output;
}

TEST(LostRanks, ARankMayCloseItsWorldBeforeOthersAreDone) {
  SpawnedRanks ranks = start("early", 2, {{"TESSERA_SILENCE_SECONDS", "2"}});
  for (int64_t rank = 0; rank < kWorldSize; ++rank) {
    const auto end = ranks.wait_for_end(rank, seconds(60));
    ASSERT_TRUE(end.has_value()) << ranks.output(rank);
    EXPECT_EQ(end->status, 0) << end->output;
  }
}

TEST(LostRanks, AStoppedRankIsMissed) {
  SpawnedRanks ranks = start("reduce", 1);
  ASSERT_TRUE(all_ready(ranks));
  ranks.signal(1, SIGSTOP);
  for (const std::string& said : what_the_others_say(ranks, 1)) {
    EXPECT_TRUE(contains(said, "rank 1 (pid ") && contains(said, "went missing")) << said;
  }
}

// A process that wakes up has seen no heartbeats for long, because it did not read any.
TEST(LostRanks, AStoppedRankThatWakesUpReportsItself) {
  SpawnedRanks ranks = start("reduce", 2, {{"TESSERA_SILENCE_SECONDS", "2"}});
  SpawnedRanks alone = start("reduce", 2, {{"TESSERA_SILENCE_SECONDS", "2"}});
  ASSERT_TRUE(all_ready(ranks) && all_ready(alone));
  ranks.signal(2, SIGSTOP);
  alone.signal(2, SIGSTOP);
  ASSERT_TRUE(ranks.wait_for_output(1, "raised: ", kPromised));  // Rank 0 is still alive.
  ranks.signal(2, SIGCONT);
  EXPECT_EQ(what_the_others_say(alone, 2).size(), kWorldSize - 1U);
  alone.signal(2, SIGCONT);  // No rank is alive.
  for (SpawnedRanks* world : {&ranks, &alone}) {
    const auto end = world->wait_for_end(2, kPromised);
    ASSERT_TRUE(end.has_value()) << world->output(2);
    EXPECT_TRUE(contains(end->output, "raised: ") &&
                contains(end->output, "this process did not run for ") &&
                !contains(end->output, "has not answered") && !contains(end->output, "frame #"))
        << end->output;
  }
}

TEST(LostRanks, AHangReportNamesAStoppedRank) {
  SpawnedRanks ranks =
      start("reduce", 1, {{"TESSERA_TEST_TIMEOUT", "4000"}, {"TESSERA_SILENCE_SECONDS", "60"}});
  ASSERT_TRUE(all_ready(ranks));
  ranks.signal(1, SIGSTOP);
  for (const std::string& said : what_the_others_say(ranks, 1)) {
    EXPECT_TRUE(contains(said, "timed out after") && contains(said, "rank 1 was last seen ") &&
                contains(said, " and has sent no heartbeat for "))
        << said;
  }
}

TEST(LostRanks, AHangReportHasTheOperationOfEveryRank) {
  SpawnedRanks ranks = start("elsewhere", 2, {{"TESSERA_TEST_TIMEOUT", "3000"}});
  const std::string report =
      "ranks 0, 1, 3 are in all_reduce #3 of group dp; rank 2 is in barrier #2 of group world";
  for (const std::string& said : what_the_others_say(ranks, -1)) {
    EXPECT_TRUE(contains(said, "timed out after") && contains(said, report)) << said;
  }
}

}  // namespace
}  // namespace tessera

// The ranks of a scene run this program as well.
int main(int argc, char** argv) {
  const std::string scene = tessera::variable(tessera::kScene);
  if (!scene.empty()) tessera::play_as_rank(scene);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
