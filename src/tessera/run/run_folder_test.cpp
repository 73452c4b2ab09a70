#include "tessera/run/run_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "tessera/base/error.h"
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

TEST(RunFolder, IsMadeWhenTheRunBegins) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path("a/b"), FormerRun::kRefuse);
  EXPECT_FALSE(fs::exists(folder.path("a")));
  run.begin();
  run.write("config.toml", "x = 1");
  EXPECT_TRUE(fs::exists(folder.path("a/b/config.toml")));
}

TEST(RunFolder, WithContentIsRefused) {
  const TemporaryFolder folder;
  write_run(folder);
  EXPECT_EQ(message_of<ConfigError>([&] { RunFolder(folder.path(), FormerRun::kRefuse); }),
            "run directory " + folder.path() +
                " has content; choose another one, or give --overwrite to remove the run in it");
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
  folder.file("model/tokenizer.json", "mine");
  const RunFolder run(folder.path(), FormerRun::kOverwrite);
  EXPECT_TRUE(fs::exists(folder.path("metrics.jsonl")));  // Looking changes nothing.
  run.begin();
  std::vector<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.is_regular_file()) left.push_back(entry.path().filename());
  }
  std::ranges::sort(left);
  EXPECT_EQ(left, (std::vector<std::string>{"notes.txt", "tokenizer.json"}));
}

TEST(RunFolder, ThatHoldsNoRunIsNotOverwritten) {
  const TemporaryFolder folder;
  folder.file("thesis.tex", "mine");
  const std::string message =
      message_of<ConfigError>([&] { RunFolder(folder.path(), FormerRun::kOverwrite); });
  EXPECT_NE(message.find("holds files and no run"), std::string::npos) << message;
}

TEST(RunFolder, WhatTheSystemRefusesIsNamed) {
  const std::string message =
      message_of<DataError>([&] { RunFolder("/proc/none/run", FormerRun::kRefuse).begin(); });
  EXPECT_TRUE(message.starts_with("cannot make /proc/none/run: ")) << message;
}

}  // namespace
}  // namespace tessera
