#include "tessera/format/checkpoint/checkpoint_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/format/checkpoint/checkpoint.h"
#include "tests/testkit/checkpoints.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::cut_in_runs;
using testkit::message_of;
using testkit::TemporaryFolder;
using testkit::write_indices;
using Steps = std::vector<int64_t>;

class CheckpointFolderTest : public testing::Test {
 protected:
  void save(int64_t step) const {
    write_indices(all_.path_of(step), cut_in_runs("w", {4}, 2), step);
    all_.set_latest(step);
  }
  std::string latest() const {
    std::ifstream file(all_.path() + "/latest");
    std::string name;
    std::getline(file, name);
    return name;
  }

  const TemporaryFolder folder_;
  const CheckpointFolder all_{folder_.path("run/checkpoints")};
};

TEST_F(CheckpointFolderTest, KeepsTheLast) {
  EXPECT_EQ(all_.newest(), std::nullopt);
  for (const int64_t step : {5, 10, 15}) save(step);
  EXPECT_EQ(all_.steps(), (Steps{5, 10, 15}));
  EXPECT_EQ(latest(), "step-00000015");
  all_.keep_last(2);
  EXPECT_EQ(all_.steps(), (Steps{10, 15}));
  all_.keep_last(0);
  EXPECT_EQ(all_.steps(), Steps{15}) << "never none";
}

TEST_F(CheckpointFolderTest, AnUnfinishedOneIsNoneAndIsReplaced) {
  save(1);
  fs::create_directories(all_.path_of(2) + ".tmp/model");  // Of a killed process.
  fs::create_directories(all_.path_of(3));                 // Without an index.
  EXPECT_EQ(all_.newest(), 1);
  save(2);
  EXPECT_EQ(all_.newest(), 2);
  fs::create_directories(all_.path_of(4) + ".tmp/model");
  std::ofstream(all_.path() + "/latest.part123") << "step-";
  all_.keep_last(9);
  EXPECT_FALSE(fs::exists(all_.path_of(4) + ".tmp"));
  EXPECT_FALSE(fs::exists(all_.path() + "/latest.part123"));
  EXPECT_EQ(all_.steps(), (Steps{1, 2}));
}

TEST_F(CheckpointFolderTest, ADraftThatIsNotPublishedLeavesNothing) {
  { const CheckpointDraft draft(all_.path_of(1), 0); }
  EXPECT_TRUE(fs::is_empty(all_.path()));
  CheckpointDraft draft(all_.path_of(1), 0);
  const CheckpointIndex incomplete{.tensors = {{"w", {DType::kF32, {2}}}}};
  EXPECT_THROW(draft.publish(incomplete), DataError);
}

TEST_F(CheckpointFolderTest, TwoProcessesDoNotWriteTheSame) {
  const CheckpointDraft draft(all_.path_of(1), 0);
  EXPECT_EQ(message_of<ConfigError>([&] { CheckpointDraft(all_.path_of(1), 0); }),
            all_.path_of(1) +
                ".tmp is being written by another process; wait until it ends, or "
                "choose another folder");
}

TEST_F(CheckpointFolderTest, NothingThatExistsIsReplaced) {
  save(1);
  EXPECT_EQ(message_of<ConfigError>([&] { CheckpointDraft(all_.path_of(1), 0); }),
            all_.path_of(1) + " exists already; choose another folder, or remove it");
}

TEST_F(CheckpointFolderTest, APathThatTheSystemRefusesIsNamed) {
  const std::string path = all_.path() + "/" + std::string(300, 'a');
  EXPECT_NE(message_of<DataError>([&] { CheckpointDraft(path, 0); }).find("cannot create " + path),
            std::string::npos);
}

TEST_F(CheckpointFolderTest, TooLittleSpaceIsSaidBeforeAnythingIsWritten) {
  const std::string said =
      message_of<DataError>([&] { CheckpointDraft(all_.path_of(1), int64_t{1} << 60); });
  EXPECT_NE(said.find("the checkpoint needs 1,152,921,504,606,846,976 bytes, but "),
            std::string::npos)
      << said;
  EXPECT_TRUE(fs::is_empty(all_.path()));
}

TEST_F(CheckpointFolderTest, AreFoundFromTheRunAndFromTheirFolder) {
  save(1);
  save(2);
  EXPECT_EQ(find_checkpoint(folder_.path("run")), all_.path_of(2));
  EXPECT_EQ(find_checkpoint(all_.path()), all_.path_of(2));
  EXPECT_EQ(find_checkpoint(all_.path_of(1)), all_.path_of(1));
  EXPECT_THROW(find_checkpoint(folder_.path()), DataError);
}

}  // namespace
}  // namespace tessera
