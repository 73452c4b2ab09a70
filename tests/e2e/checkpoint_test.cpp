// Checkpoints of `tessera train`, as users save, lose, resume and inspect them.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

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

const std::string kModels = TESSERA_GOLDEN_DIR "/llama/";

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

// Tokens of the golden models, whose vocabulary has at least 40.
std::string some_tokens() {
  std::string bytes;
  for (int i = 0; i < 4000; ++i) {
    bytes += static_cast<char>((i * 7 + i / 13) % 40);
    bytes += '\0';
  }
  return bytes;
}

// With ./tessera test --soak the long rounds, too.
int rounds(int usual, int soak) {
  const char* const wanted = std::getenv("TESSERA_SOAK");
  return wanted != nullptr && *wanted != '\0' ? soak : usual;
}

class Checkpointed : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string run_ = folder_.path("run");
  const std::string checkpoints_ = run_ + "/checkpoints";
  const std::string tokens_ = folder_.file("tokens.bin", some_tokens());

  std::string train(const std::string& more, const std::string& model = "untied") const {
    return concat(" train --model ", kModels, model, " --data ", tokens_,
                  " --batch 4 --seq 8 --lr 1e-2 --threads 1 --dtype fp64 --run-dir ", run_, " ",
                  more);
  }
  static Finished tessera(const std::string& arguments) {
    return testkit::run(TESSERA_PROGRAM + arguments);
  }
  static std::vector<std::string> words_of(const std::string& arguments) {
    std::vector<std::string> words{TESSERA_PROGRAM};
    for (const std::string_view word : split(arguments, ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
    return words;
  }
  std::vector<double> losses() const {
    std::vector<double> losses;
    std::ifstream file(run_ + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json step = json::parse(line);
      EXPECT_EQ(step["step"], losses.size()) << "each step once";
      losses.push_back(step["loss"]);
    }
    return losses;
  }
  std::string latest() const {
    const std::string name = text_of(checkpoints_ + "/latest");
    return checkpoints_ + "/" + name.substr(0, name.find('\n'));
  }
  void expect_ok(const std::string& arguments) const {
    const Finished result = tessera(arguments);
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.err;
  }
  void expect_refused(const std::string& arguments, int code, const std::string& words) const {
    const Finished result = tessera(arguments);
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << arguments << "\n" << result.err;
  }
};

// --- Resuming ---

TEST_F(Checkpointed, GoesOnInOtherLayoutsAndWorldSizes) {
  struct Pair {
    std::string from, to;
  };
  const std::map<std::string, std::vector<Pair>> pairs{
      {"untied",
       {{"--nproc 1", "--dp 2 --dp-type fsdp"},
        {"--dp 3 --dp-type fsdp", "--tp 2"},
        {"--tp 2", "--dp 2 --pp 2 --microbatches 2"}}},
      {"grouped_tied",
       {{"--dp 2 --dp-type zero1", "--nproc 1"},
        {"--pp 2 --microbatches 4", "--dp 3"},
        {"--dp 4 --dp-type hsdp --dp-replicate 2", "--pp 2 --schedule gpipe --microbatches 4"}}}};
  for (const auto& [model, ways] : pairs) {
    fs::remove_all(run_);
    expect_ok(train("--steps 10 --nproc 1", model));
    const std::vector<double> unbroken = losses();
    ASSERT_EQ(unbroken.size(), 10U);
    for (const auto& [from, to] : ways) {
      SCOPED_TRACE(concat(model, ": ", from, " → ", to));
      fs::remove_all(run_);
      expect_ok(train("--steps 5 --save-every 5 " + from, model));
      expect_ok(concat(" train --resume --steps 10 --run-dir ", run_, " ", to));
      const std::vector<double> broken = losses();
      ASSERT_EQ(broken.size(), unbroken.size());
      for (size_t i = 0; i < broken.size(); ++i) {
        EXPECT_NEAR(broken[i], unbroken[i], 1e-9 * unbroken[i]) << "step " << i;
      }
    }
  }
}

TEST_F(Checkpointed, ARunThatWasKilledGoesOnBitForBit) {
  expect_ok(train("--steps 12 --nproc 1"));
  const std::vector<double> unbroken = losses();
  fs::remove_all(run_);
  {
    Background run(words_of(train("--steps 100000 --save-every 4 --keep-last 0 --nproc 1")));
    run.await("step-00000008:");
    run.signal(SIGKILL);
  }
  for (const auto& entry : fs::directory_iterator(checkpoints_)) {  // As if it had come no further.
    if (entry.path().filename() > "step-00000008") fs::remove_all(entry.path());
  }
  expect_ok(train("--steps 12 --save-every 4 --keep-last 2 --nproc 1 --resume"));
  EXPECT_EQ(losses(), unbroken);
  const json listed = json::parse(tessera(" checkpoint ls --json " + run_).out);
  ASSERT_EQ(listed["checkpoints"].size(), 2U) << "the last 2";
  EXPECT_EQ(listed["checkpoints"][1]["step"], 12);
  EXPECT_EQ(latest(), checkpoints_ + "/step-00000012");
}

TEST_F(Checkpointed, WhatWouldChangeTheCurveIsRefused) {
  expect_ok(train("--steps 4 --save-every 2"));
  const std::string again = concat(" train --resume --run-dir ", run_, " --steps 6 ");
  expect_refused(again + "--lr 0.5", 2, "optim.lr was 0.01 and is 0.5");
  expect_refused(again + "--batch 8", 2, "data.batch was 4 and is 8");
  expect_refused(again + "--data.seed=3", 2, "--resume-anyway");
  expect_refused(concat(" train --resume --run-dir ", run_), 2,
                 "the run has done 4 steps of 4; give a larger --steps");
  folder_.file("tokens.bin", some_tokens() + some_tokens());
  expect_refused(again, 2, "the data had 499 samples when the run was saved");
  expect_ok(again + "--lr 0.5 --resume-anyway");
  EXPECT_EQ(losses().size(), 6U);
}

TEST_F(Checkpointed, OtherDtypesGoOn) {
  for (const char* const way : {"fp32 bf16", "bf16 fp32", "fp16 fp64", "fp64 fp16"}) {
    fs::remove_all(run_);
    const auto dtypes = split(way, ' ');
    expect_ok(train(concat("--steps 4 --save-every 4 --train.dtype=", dtypes[0])));
    expect_ok(concat(" train --resume --steps 8 --run-dir ", run_, " --dtype ", dtypes[1]));
    const std::vector<double> all = losses();
    ASSERT_EQ(all.size(), 8U);
    EXPECT_NEAR(all[4], all[3], 0.5) << way << ": the curve goes on";
  }
}

TEST_F(Checkpointed, ACtrlCSavesTheLastStep) {
  Background run(words_of(train("--steps 1000000 --save-every 100000 --run.save=true")));
  run.await("step 1/");
  run.signal(SIGINT);
  EXPECT_EQ(run.finish().code, 128 + SIGINT);
  const size_t done = losses().size();
  const json listed = json::parse(tessera(" checkpoint ls --json " + run_).out);
  EXPECT_EQ(listed["checkpoints"][0]["step"], done);
  expect_ok(concat(" train --resume --run-dir ", run_, " --steps ", done + 1));
  EXPECT_EQ(losses().size(), done + 1);
  EXPECT_TRUE(fs::exists(run_ + "/model/config.json")) << "of the later end";
}

TEST_F(Checkpointed, WeightsAloneBeginAnotherRun) {
  expect_ok(train("--steps 4 --save-every 4 --run.save=true"));
  const std::string first = run_ + "-first";
  fs::rename(run_, first);
  expect_ok(train("--steps 2 --init-from " + first));
  const std::vector<double> from_checkpoint = losses();
  fs::remove_all(run_);
  expect_ok(concat(" train --model ", first, "/model --data ", tokens_,
                   " --batch 4 --seq 8 --lr 1e-2 --threads 1 --dtype fp64 --steps 2 --run-dir ",
                   run_));
  EXPECT_EQ(losses(), from_checkpoint);
  fs::remove_all(run_);
  expect_refused(train("--steps 2 --init-from " + first, "grouped_tied"), 1, "another model");
}

// --- Saves that fail ---

TEST_F(Checkpointed, AfterAKillAtAnyMomentTheLatestLoads) {
  std::mt19937 random(7);
  expect_ok(train("--steps 1 --save-every 1 --dp 2 --dp-type fsdp"));
  for (int round = 0; round < rounds(10, 200); ++round) {
    SCOPED_TRACE(round);
    const size_t before = losses().size();
    {
      Background run(words_of(concat(" train --resume --steps 1000000 --run-dir ", run_)));
      run.await("saved ", 1 + random() % 3);
      const auto wait = std::chrono::microseconds(random() % 40'000);
      const auto end = std::chrono::steady_clock::now() + wait;
      while (std::chrono::steady_clock::now() < end) {
      }
      run.signal(SIGKILL);
      EXPECT_TRUE(run.leaves_nobody());
    }
    expect_ok(" checkpoint verify " + run_);
    EXPECT_TRUE(fs::exists(latest() + "/checkpoint.json"));
    const json listed = json::parse(tessera(" checkpoint ls --json " + run_).out);
    const int64_t step = listed["checkpoints"].back()["step"];
    EXPECT_GT(step, static_cast<int64_t>(before) - 5);
    expect_ok(concat(" train --resume --run-dir ", run_, " --steps ", step + 1));
    EXPECT_EQ(losses().size(), static_cast<size_t>(step + 1));
  }
}

// The limit on a file's size ends a write at any byte, as a full disk does.
TEST_F(Checkpointed, AFullDiskCostsOneCheckpointAndNotTheRun) {
  std::mt19937 random(7);
  expect_ok(train("--steps 1 --save-every 1"));
  int64_t steps = 1;
  for (int round = 0; round < rounds(3, 30); ++round) {
    const std::string before = latest();
    const auto blocks = 60 + random() % 200;  // Of 512 bytes; the weights have more.
    steps += 2;
    const Finished full =
        testkit::run(concat("ulimit -f ", blocks, "; ", TESSERA_PROGRAM,
                            " train --resume --run-dir ", run_, " --steps ", steps));
    EXPECT_NE(full.err.find("was not saved, and the run goes on"), std::string::npos) << full.err;
    EXPECT_EQ(latest(), before);
    expect_ok(" checkpoint verify " + run_);
    for (const auto& entry : fs::directory_iterator(checkpoints_)) {
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    }
  }
  expect_ok(concat(" train --resume --run-dir ", run_, " --steps ", steps));
}

TEST_F(Checkpointed, AFolderThatCannotBeMadeIsAWarning) {
  fs::create_directory(run_);
  const Finished result = tessera(train("--steps 3 --save-every 1 --no-async-save --keep-last 1"));
  EXPECT_EQ(result.code, 0) << result.err;
  fs::remove_all(checkpoints_);
  folder_.file("run/checkpoints", "a file");
  const Finished again = tessera(train("--overwrite --steps 2 --save-every 1"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("warning: "), std::string::npos) << again.err;
  EXPECT_EQ(text_of(checkpoints_), "a file");
}

// --- Damage ---

TEST_F(Checkpointed, DamagedFilesAreNamedAndNothingChanges) {
  expect_ok(train("--steps 2 --save-every 2 --dp 2 --dp-type fsdp"));
  const std::string resume = concat(" train --resume --steps 4 --run-dir ", run_);
  fs::path victim;
  for (const auto& entry : fs::directory_iterator(latest() + "/optim")) victim = entry.path();
  const std::string whole = text_of(victim);
  std::string altered = whole;
  altered[altered.size() - 9] = static_cast<char>(altered[altered.size() - 9] ^ 4);
  std::ofstream(victim, std::ios::binary) << altered;
  for (const std::string& command : {resume, " checkpoint verify " + run_}) {
    expect_refused(command, 1, victim.filename());
    expect_refused(command, 1, "has another checksum");
  }
  std::ofstream(victim, std::ios::binary) << whole.substr(0, whole.size() - 1);
  expect_refused(resume, 1, victim.filename());
  fs::remove(victim);
  expect_refused(resume, 1, victim.filename());
  std::ofstream(victim, std::ios::binary) << whole;
  expect_ok(resume);
  EXPECT_EQ(losses().size(), 4U);
}

// --- The verbs ---

TEST_F(Checkpointed, VerbsShowCompareReshardAndExport) {
  expect_ok(train("--steps 4 --save-every 2 --dp 2 --dp-type fsdp --run.save=true"));
  const Finished shown = tessera(" checkpoint show " + run_);
  EXPECT_NE(shown.out.find("model.layers.0.mlp.up_proj.weight"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("optim.state.model.norm.weight.exp_avg_sq"), std::string::npos);
  EXPECT_NE(tessera(" checkpoint show --config " + run_).out.find("[optim]"), std::string::npos);

  const std::string third = folder_.path("three");
  expect_ok(concat(" checkpoint reshard ", run_, " ", third, " --ranks 3"));
  const Finished same = tessera(concat(" checkpoint diff ", run_, " ", third));
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_NE(same.out.find("no tensor differs"), std::string::npos) << same.out;
  const Finished other =
      tessera(concat(" checkpoint diff ", third, " ", checkpoints_, "/step-00000002 --json"));
  EXPECT_EQ(other.code, 1);
  const json first = json::parse(other.out)["differences"][0];
  EXPECT_GT(first["largest"], 0);
  EXPECT_LT(first["largest"], 1);

  const std::string out = folder_.path("out");
  expect_ok(concat(" export ", third, " ", out));
  EXPECT_EQ(text_of(out + "/config.json"), text_of(run_ + "/model/config.json"));
  const std::string imported = folder_.path("imported");
  const std::string model = folder_.path("model");
  expect_ok(concat(" checkpoint import ", run_, "/model ", model, " --ranks 2"));
  expect_ok(concat(" checkpoint import ", out, " ", imported));
  expect_ok(concat(" checkpoint diff ", model, " ", imported));
  expect_refused(concat(" checkpoint reshard ", run_, " ", third), 2, "exists already");
  expect_refused(" checkpoint verfy " + run_, 2, "did you mean 'verify'?");
  expect_refused(" checkpoint show " + folder_.path("none"), 1, "holds no complete checkpoint");
}

TEST_F(Checkpointed, AnOwnProgramSavesAndLoadsOnAnyNumberOfRanks) {
  const std::string path = folder_.path("own");
  for (const auto& [ranks, words] : {std::pair{4, "saved "}, {3, "loaded "}, {1, "loaded "}}) {
    const Finished result =
        tessera(concat(" run --nproc ", ranks, " -- ", TESSERA_OWN_CHECKPOINT, " ", path));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out.find(concat(words, path, " on ", ranks, " ranks\n")), std::string::npos)
        << result.out;
  }
  expect_ok(" checkpoint verify " + path);
}

}  // namespace
}  // namespace tessera
