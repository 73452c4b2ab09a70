// Run directories of `tessera train`: old, busy, foreign, full and read-only ones.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tessera/base/text.h"
#include "tests/e2e/train_fixture.h"
#include "tests/testkit/background.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Background;
using testkit::Finished;

// On a CPU: CUDA may write files of its own, which may not grow either.
TEST_F(Train, AFileThatMayNotGrowIsNamed) {
  const Finished result = testkit::run(
      concat("ulimit -f 32; ", TESSERA_PROGRAM, fixed("--train.steps=1000 --train.device=cpu")));
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("cannot write " + run_ + "/metrics.jsonl: File too large"),
            std::string::npos)
      << result.err;
  const std::string metrics = text_of(run_ + "/metrics.jsonl");
  EXPECT_EQ(json::parse(metrics.substr(0, metrics.find('\n')))["step"], 0);
}

TEST_F(Train, RefusesARunDirectoryWithContent) {
  ASSERT_EQ(tessera(fixed("--run.save=true")).code, 0);
  const auto before = content_of(run_);
  for (const char* flag : {"", "--resume"}) {
    const Finished result = tessera(fixed(flag));
    EXPECT_EQ(result.code, 2) << flag;
    EXPECT_NE(result.err.find(run_), std::string::npos) << result.err;
  }
  // What it starts from, and what it would do if it began.
  EXPECT_EQ(tessera(concat(" train --overwrite --model ", run_, "/model --data ", tokens_,
                           " --batch 2 --seq 8 --run-dir ", run_))
                .code,
            2);
  EXPECT_EQ(tessera(fixed("--overwrite --data.paths=" + folder_.path("none.bin"))).code, 1);
  EXPECT_EQ(content_of(run_), before);

  folder_.file("run/notes.txt", "mine");
  EXPECT_EQ(tessera(fixed("--overwrite")).code, 0);
  EXPECT_EQ(text_of(run_ + "/notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(run_ + "/model"));
}

TEST_F(Train, ARunThatIsGoingOnKeepsItsDirectory) {
  Background run(words_of(fixed("--train.steps=1000000 --dp 2 --parallel.nproc=2")));
  run.await("step 1/");
  for (const char* flag : {"", "--overwrite", "--resume"}) {
    const Finished other = tessera(fixed(flag));
    EXPECT_EQ(other.code, 2) << other.err;
    const std::string words =
        concat("run directory ", run_, " belongs to a run in progress (process ");
    EXPECT_NE(other.err.find(words), std::string::npos) << other.err;
  }
  EXPECT_TRUE(fs::exists(run_ + "/config.toml"));
  run.signal(SIGTERM);
  EXPECT_EQ(run.finish().code, 128 + SIGTERM);
  EXPECT_EQ(tessera(fixed("--overwrite --train.steps=1")).code, 0);
  EXPECT_EQ(steps().size(), 1U);
}

TEST_F(Train, StartsWithoutARunDirectoryNeverCollide) {
  const std::string start = concat(TESSERA_PROGRAM, " train --model ", kModels, "untied --data ",
                                   tokens_, " --batch 2 --seq 8 --steps 2 --threads 1 --nproc ");
  const Finished all = testkit::run(concat("cd ", folder_.path(), "; ", start, "1 & ", start,
                                           "1 & ", start, "1 & ", start, "2 & wait"));
  for (const char* number : {"1", "2", "3", "4"}) {
    const std::string dir = concat("runs/", number);
    EXPECT_NE(all.err.find(concat("into ", dir, "\n")), std::string::npos) << all.err;
    const std::string metrics = text_of(folder_.path(dir + "/metrics.jsonl"));
    EXPECT_EQ(std::ranges::count(metrics, '\n'), 2) << dir;
    EXPECT_TRUE(fs::exists(folder_.path(dir + "/report.html"))) << dir;
  }
  EXPECT_FALSE(fs::exists(folder_.path("runs/5")));
}

TEST_F(Train, WhatAKilledRunLeftIsCleanedByTheNext) {
  Background run(words_of(fixed("--train.steps=1000000")));
  run.await("step 1/");
  run.signal(SIGKILL);
  run.finish();
  EXPECT_TRUE(fs::exists(run_ + "/run.lock"));
  std::ofstream(run_ + "/metrics.jsonl", std::ios::app) << R"({"step":7,"lo)";
  folder_.file("run/report.html.part123", "<html");
  EXPECT_EQ(tessera(fixed()).code, 2);
  ASSERT_EQ(tessera(fixed("--overwrite --train.steps=1")).code, 0);
  std::vector<std::string> names;
  for (const auto& [name, text] : content_of(run_)) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"config.toml", "metrics.jsonl", "report.html"}));
  EXPECT_EQ(steps().size(), 1U);
}

TEST_F(Train, RefusesToOverwriteWhatIsNoRun) {
  folder_.file("thesis.tex", "mine");
  const auto before = content_of(folder_.path());
  const Finished result = tessera(fixed("--overwrite --run.dir=" + folder_.path()));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_EQ(content_of(folder_.path()), before);
}

TEST_F(Train, NamesAFolderThatCannotBeWritten) {
  const Finished result = tessera(fixed("--run.dir=/proc/run"));
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("/proc/run"), std::string::npos) << result.err;
}

// A file system of our own, which takes `pages` pages: it ends with the shell that made it.
class SmallDisk : public Train {
 protected:
  void SetUp() override {
    const Finished mounted = on_disk("size=64k", "true");
    if (mounted.code != 0) GTEST_SKIP() << "no file system can be mounted here: " << mounted.err;
  }
  Finished on_disk(const std::string& options, const std::string& command) const {
    fs::create_directories(run_);
    return testkit::run(concat("unshare -rm sh -c 'mount -t tmpfs -o ", options, " tmpfs ", run_,
                               " && ", command, "'"));
  }
};

TEST_F(SmallDisk, ThatIsFullEndsTheRunAndKeepsWhatWasWritten) {
  const Finished result =
      on_disk("size=24k", concat(TESSERA_PROGRAM, fixed("--train.steps=1000"),
                                 "; code=$?; head -n 1 ", run_, "/metrics.jsonl; exit $code"));
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("cannot write " + run_ + "/metrics.jsonl: No space left"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(json::parse(result.out.substr(0, result.out.find('\n')))["step"], 0);
}

TEST_F(SmallDisk, TakesTheReportEvenWhereTheWeightsDoNotFit) {
  const Finished result = on_disk("size=96k", concat(TESSERA_PROGRAM, fixed("--run.save=true"),
                                                     "; code=$?; ls ", run_, "; exit $code"));
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("cannot write " + run_ + "/model/"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("report.html"), std::string::npos) << result.out;
}

TEST_F(SmallDisk, ThatIsReadOnlyIsNamed) {
  const Finished result = on_disk("ro", TESSERA_PROGRAM + fixed());
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find(run_), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("Read-only file system"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera
