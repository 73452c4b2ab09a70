#include "tessera/run/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/machine.h"
#include "tessera/base/text.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::message_of;
using testkit::TemporaryFolder;

void write_run(const TemporaryFolder& folder) {
  for (const char* name : {"config.toml", "metrics.jsonl", "report.html"}) folder.file(name, "old");
  fs::create_directory(folder.path("model"));
  for (const char* name : {"model/config.json", "model/model.safetensors"}) {
    folder.file(name, "old");
  }
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

TEST(RunFolder, IsMadeForTheRun) {
  const TemporaryFolder folder;
  {
    const RunFolder run(folder.path("a/b"), FormerRun::kRefuse);
    run.begin();
    run.write("config.toml", "x = 1");
  }
  EXPECT_EQ(files_below(folder.path()), std::vector<std::string>{"config.toml"});
}

TEST(RunFolder, OfARunThatNeverBeganLeavesNothing) {
  const TemporaryFolder folder;
  RunFolder(folder.path("a/b"), FormerRun::kRefuse);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RunFolder, HasOneOwner) {
  const TemporaryFolder folder;
  write_run(folder);
  {
    const RunFolder run(folder.path(), FormerRun::kOverwrite);
    for (const FormerRun former : {FormerRun::kRefuse, FormerRun::kResume, FormerRun::kOverwrite}) {
      EXPECT_EQ(message_of<ConfigError>([&] { RunFolder(folder.path(), former); }),
                concat("run directory ", folder.path(), " belongs to a run in progress (process ",
                       getpid(), " on host ", host_name(),
                       "); wait until it ends, stop it, or choose another run directory"));
    }
  }
  RunFolder(folder.path(), FormerRun::kOverwrite).begin();
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RunFolder, OfAKilledProcessHasNoOwner) {
  const TemporaryFolder folder;
  folder.file("run.lock", "process 1 on host gone\n");
  const RunFolder run(folder.path(), FormerRun::kRefuse);
  EXPECT_THROW(RunFolder(folder.path(), FormerRun::kRefuse), ConfigError);
}

TEST(RunFolder, WithoutANameIsTheNextThatIsFree) {
  const TemporaryFolder folder;
  const RunFolder first = RunFolder::next_in(folder.path("runs"));
  const RunFolder second = RunFolder::next_in(folder.path("runs"));
  EXPECT_EQ(first.path(), folder.path("runs/1"));
  EXPECT_EQ(second.path(), folder.path("runs/2"));
  fs::create_directory(folder.path("runs/3"));
  folder.file("runs/3/notes.txt", "mine");
  fs::create_directory(folder.path("runs/4"));  // Left by a killed start.
  folder.file("runs/4/run.lock", "");
  EXPECT_EQ(RunFolder::next_in(folder.path("runs")).path(), folder.path("runs/4"));
}

// Many threads start and end at the same time, so that folders come and go; each gets its own.
TEST(RunFolder, NoTwoStartsHaveTheSame) {
  const TemporaryFolder folder;
  std::mutex mutex;
  std::set<std::string> owned;
  const auto start = [&] {
    for (int i = 0; i < 20; ++i) {
      const RunFolder run = RunFolder::next_in(folder.path("runs"));
      const auto own = [&] {
        const std::lock_guard lock(mutex);
        return owned.insert(run.path()).second;
      };
      EXPECT_TRUE(own()) << run.path();
      EXPECT_TRUE(fs::exists(run.path()));
      const std::lock_guard lock(mutex);
      owned.erase(run.path());
    }
  };
  std::vector<std::thread> starts;
  for (int i = 0; i < 4; ++i) starts.emplace_back(start);
  for (std::thread& one : starts) one.join();
}

TEST(RunFolder, WhatAKilledStartLeftIsNoContentAndGoes) {
  const TemporaryFolder folder;
  for (const char* name : {"config.toml.part123", "report.html.part4", "run.lock"}) {
    folder.file(name, "half");
  }
  RunFolder(folder.path(), FormerRun::kRefuse).begin();
  EXPECT_TRUE(fs::is_empty(folder.path()));
  folder.file("notes.part12", "mine");
  EXPECT_THROW(RunFolder(folder.path(), FormerRun::kRefuse), ConfigError);
}

TEST(RunFolder, WhatAKilledRunLeftGoesWithIt) {
  const TemporaryFolder folder;
  write_run(folder);
  fs::create_directory(folder.path("pipeline"));
  for (const char* name : {"model/model-00001-of-00002.safetensors.part123",
                           "model/config.json.part9", "pipeline/step-4.rank-0.json.part77"}) {
    folder.file(name, "half");
  }
  RunFolder(folder.path(), FormerRun::kOverwrite).begin();
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RunFolder, WithContentIsRefused) {
  const TemporaryFolder folder;
  write_run(folder);
  EXPECT_EQ(message_of<ConfigError>([&] { RunFolder(folder.path(), FormerRun::kRefuse); }),
            "run directory " + folder.path() +
                " is not empty; choose another one, or give --overwrite to replace the run in it");
  EXPECT_THROW(RunFolder(folder.path(), FormerRun::kResume), ConfigError);
  EXPECT_THROW(RunFolder(folder.path("config.toml"), FormerRun::kOverwrite), ConfigError);
}

TEST(RunFolder, ThatIsEmptyOrNotThereSuitsEveryWish) {
  const TemporaryFolder folder;
  for (const FormerRun former : {FormerRun::kRefuse, FormerRun::kResume, FormerRun::kOverwrite}) {
    RunFolder(folder.path(), former).begin();
    RunFolder(folder.path("new"), former);
  }
}

TEST(RunFolder, OverwritesWhatARunWroteAndNothingElse) {
  const TemporaryFolder folder;
  write_run(folder);
  folder.file("notes.txt", "mine");
  folder.file("model/tokenizer.json", "its");
  folder.file("model/merges.txt", "mine");
  const RunFolder run(folder.path(), FormerRun::kOverwrite);
  EXPECT_TRUE(fs::exists(folder.path("metrics.jsonl")));  // Checking changes nothing.
  run.begin();
  EXPECT_EQ(files_below(folder.path()),
            (std::vector<std::string>{"merges.txt", "notes.txt", "run.lock"}));
}

TEST(RunFolder, ThatHoldsNoRunIsNotOverwritten) {
  const TemporaryFolder folder;
  folder.file("thesis.tex", "mine");
  const std::string message =
      message_of<ConfigError>([&] { RunFolder(folder.path(), FormerRun::kOverwrite); });
  EXPECT_NE(message.find("holds files, but no run"), std::string::npos) << message;
}

TEST(RunFolder, WhatTheSystemRefusesIsNamed) {
  const std::string message =
      message_of<DataError>([&] { RunFolder("/proc/none/run", FormerRun::kRefuse).begin(); });
  EXPECT_TRUE(message.starts_with("cannot create /proc/none/run: ")) << message;
}

}  // namespace
}  // namespace tessera
