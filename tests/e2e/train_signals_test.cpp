// `tessera train` when a signal, a reader, another rank or memory ends it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "tessera/base/text.h"
#include "tessera/launch/socket.h"
#include "tests/e2e/train_fixture.h"
#include "tests/testkit/background.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Background;
using testkit::Finished;

bool appears(const fs::path& path) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!fs::exists(path) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  return fs::exists(path);
}

TEST_F(Train, ASignalEndsItAfterItsStep) {
  for (const char* ranks : {"", "--dp 2 --parallel.nproc=2"}) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      SCOPED_TRACE(concat("signal ", number, " ", ranks));
      fs::remove_all(run_);
      Background run(words_of(fixed(concat("--train.steps=1000000 --run.save=true ", ranks))));
      run.await("step 1/");
      run.signal(number);
      const Finished result = run.finish();
      EXPECT_EQ(result.code, 128 + number) << result.err;
      EXPECT_FALSE(steps().empty());
      EXPECT_LT(steps().size(), 1000000U);
      EXPECT_TRUE(fs::exists(run_ + "/report.html"));
      EXPECT_EQ(tessera(" inspect " + run_ + "/model").code, 0);
      EXPECT_NE(result.out.find(run_), std::string::npos) << result.out;
      EXPECT_NE(result.out.find(concat("stopped after ", steps().size(), " of 1000000 steps")),
                std::string::npos)
          << result.out;
      EXPECT_NE(result.out.find("--save-every N keeps its state"), std::string::npos) << result.out;
    }
  }
}

TEST_F(Train, Sigusr1WritesTheLastOperationsAndTrainsOn) {
  for (const size_t ranks : {1U, 2U}) {
    SCOPED_TRACE(ranks);
    const std::string dumps = folder_.path(concat("dumps", ranks));
    Background run(words_of(fixed(concat("--train.steps=1000000 --overwrite --dp ", ranks,
                                         " --parallel.nproc=", ranks))),
                   {{"TESSERA_TRACE_DIR", dumps}});
    run.await("step 1/");
    run.signal(SIGUSR1);  // To the launcher, or to the only rank.
    run.await("SIGUSR1: the last operations are in " + dumps, ranks);
    run.signal(SIGINT);
    EXPECT_EQ(run.finish().code, 128 + SIGINT);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const json dump = json::parse(text_of(concat(dumps, "/rank_", rank, ".json")));
      EXPECT_EQ(dump["reason"], "SIGUSR1");
      EXPECT_EQ(dump["entries"].empty(), ranks == 1);
    }
  }
}

TEST_F(Train, Sigusr1DoesNotEndARankThatWaitsForTheOthers) {
  Background first(
      words_of(fixed("--dp 2 --parallel.nproc=2")),
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}});
  ASSERT_TRUE(appears(run_ + "/run.lock"));  // It has begun.
  first.signal(SIGUSR1);
  first.await("tessera: SIGUSR1: ");
  first.signal(SIGTERM);
  EXPECT_EQ(first.finish().code, 128 + SIGTERM);
}

TEST_F(Train, AReaderThatIsGoneDoesNotEndIt) {
  const Finished result =
      testkit::run(concat("bash -c '", TESSERA_PROGRAM, fixed("--run.save=true"),
                          " 2>&1 | head -n 1; exit ${PIPESTATUS[0]}'"));
  EXPECT_EQ(result.code, 1) << result.err;  // What it found could not be shown.
  EXPECT_EQ(steps().size(), 20U);
  EXPECT_TRUE(fs::exists(run_ + "/report.html"));
  EXPECT_EQ(tessera(" inspect " + run_ + "/model").code, 0);
}

TEST_F(Train, AnErrorOfAllRanksIsSaidOnce) {
  const Finished result = tessera(fixed("--data.seq=1000 --dp 2 --parallel.nproc=2"));
  EXPECT_EQ(result.code, 2) << result.err;
  const std::string words = "the data has ";
  EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(words), result.err.rfind(words)) << result.err;
}

TEST_F(Train, MemoryThatIsMissingIsSaidInALine) {
  const std::string command = concat("ulimit -d 1500000; ", TESSERA_PROGRAM,
                                     " train --nproc 1 --threads 1 --steps 1 --batch 512 --seq 512 "
                                     "--train.validate_every=0 --run-dir ",
                                     run_);
  const Finished result = testkit::run(command);
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("\ntessera: out of memory: "), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("frame #"), std::string::npos) << result.err;
  const Finished traced = testkit::run("export TESSERA_BACKTRACE=1; " + command + " --overwrite");
  EXPECT_NE(traced.err.find("frame #"), std::string::npos) << traced.err;
}

TEST_F(Train, ALostStoreIsSaidInALine) {
  const PortReservation reserved("127.0.0.1");
  const auto rank = [&](const std::string& number) {
    return std::make_unique<Background>(
        std::vector<std::string>{TESSERA_PROGRAM, "train", "--dp", "2", "--steps", "100000",
                                 "--threads", "1", "--run-dir", run_},
        std::map<std::string, std::string>{{"RANK", number},
                                           {"WORLD_SIZE", "2"},
                                           {"LOCAL_RANK", number},
                                           {"LOCAL_WORLD_SIZE", "2"},
                                           {"MASTER_ADDR", "127.0.0.1"},
                                           {"MASTER_PORT", std::to_string(reserved.port())}});
  };
  const auto first = rank("0");
  const auto second = rank("1");
  first->await("step 1/");
  first->signal(SIGKILL);
  const Finished result = second->finish();
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("rank 0"), std::string::npos) << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
}

}  // namespace
}  // namespace tessera
