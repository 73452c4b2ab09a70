// Checkpoints of `tessera train` that could not be saved, or were damaged later.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "tessera/base/text.h"
#include "tests/e2e/checkpoint_fixture.h"
#include "tests/testkit/background.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Background;
using testkit::Finished;

int count_of(const std::string& text, const std::string& words) {
  int count = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
    ++count;
  }
  return count;
}

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
    EXPECT_NE(full.err.find("was not saved, and the run continues"), std::string::npos) << full.err;
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

/// The checkpoints of a run on a file system of their own.
class CheckpointDisk : public Checkpointed {
 protected:
  const std::string script_ = folder_.path("script");

  void SetUp() override {
    expect_ok(train("--steps 1 --save-every 1"));
    const Finished mounted = testkit::run("unshare -rm mount -t tmpfs tmpfs " + checkpoints_);
    if (mounted.code != 0) GTEST_SKIP() << "no file system can be mounted here: " << mounted.err;
    const Finished copied = on_disk("true");
    ASSERT_EQ(copied.code, 0) << copied.err;
  }
  // What the script prints with the newest checkpoint on the disk. The disk ends with the script.
  Finished on_disk(const std::string& script) const {
    folder_.file("script",
                 concat("set -e\nmount -t tmpfs -o size=16m tmpfs ", checkpoints_, "\ncp -r ",
                        folder_.path("saved/."), " ", checkpoints_, "\n", script));
    fs::copy(checkpoints_, folder_.path("saved"), fs::copy_options::recursive);
    Finished result = testkit::run("unshare -rm sh " + script_);
    fs::remove_all(folder_.path("saved"));
    return result;
  }
  // Two more steps that cannot be saved; then the checkpoint on the disk is checked.
  std::string two_steps() const {
    return concat(TESSERA_PROGRAM, resume_to(3), "\n", TESSERA_PROGRAM, " checkpoint verify ", run_,
                  "\nls ", checkpoints_, "\n");
  }
};

constexpr int64_t kPage = 4096;

// What the files take on a disk of whole pages: with a byte less they do not fit.
int64_t pages_below(const fs::path& folder) {
  int64_t pages = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    pages += (static_cast<int64_t>(entry.file_size()) + kPage - 1) / kPage;
  }
  return kPage * pages;
}

// With less room than the tensors need it is refused at the start; otherwise a header, the last
// tensors or the index find no room.
TEST_F(CheckpointDisk, ThatIsFullAtAnyByteKeepsTheLastCheckpoint) {
  std::mt19937 random(7);
  const int64_t all = pages_below(latest());
  const json listed = json::parse(tessera(" checkpoint ls --json " + run_).out);
  const int64_t tensors = listed["checkpoints"][0]["bytes"];
  const int64_t enough = tensors + kPage;  // The filler takes whole pages too.
  ASSERT_LT(enough, all);
  const int count = rounds(4, 60);
  std::string script;
  for (int round = 0; round < count; ++round) {
    const bool begins = round % 4 != 0;
    const int64_t free = begins ? enough + static_cast<int64_t>(random()) % (all - enough)
                                : static_cast<int64_t>(random()) % tensors;
    script += concat("room=$(df -B1 --output=avail ", checkpoints_, " | tail -n 1)\n",
                     "head -c $((room - ", free, ")) /dev/zero >", checkpoints_, "/filler\n",
                     two_steps(), "rm ", checkpoints_, "/filler\n");
  }
  const Finished result = on_disk(script);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count_of(result.out, "filler\nlatest\nstep-00000001\n"), count) << result.out;
  EXPECT_EQ(count_of(result.err, "was not saved, and the run continues"), 2 * count) << result.err;
  EXPECT_GE(count_of(result.err, "No space left on device"), count / 2) << result.err;
  EXPECT_GE(count_of(result.err, "the checkpoint needs "), count / 4) << result.err;
}

TEST_F(CheckpointDisk, ThatIsReadOnlyIsAWarning) {
  const Finished result =
      on_disk(concat("mount -o remount,ro tmpfs ", checkpoints_, "\n", two_steps(), TESSERA_PROGRAM,
                     " export ", run_, " ", folder_.path("out"), "\n"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count_of(result.out, "latest\nstep-00000001\n"), 1) << result.out;
  EXPECT_EQ(count_of(result.err, "Read-only file system"), 2) << result.err;
  EXPECT_EQ(losses().size(), 3U);
  EXPECT_TRUE(fs::exists(folder_.path("out/model.safetensors")));
}

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

}  // namespace
}  // namespace tessera
