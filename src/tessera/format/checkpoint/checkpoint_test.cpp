#include "tessera/format/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/checkpoints.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::cut_in_runs;
using testkit::indices_in;
using testkit::message_of;
using testkit::TemporaryFolder;
using testkit::write_indices;

std::vector<int32_t> read_box(const Checkpoint& checkpoint, const Box& box) {
  std::vector<int32_t> values(static_cast<size_t>(box.numel()));
  checkpoint.read("w", box, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(Checkpoint, AnyPartIsReadFromAnyCut) {
  const TemporaryFolder folder;
  int number = 0;
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{13}, {5, 7}, {3, 4, 5}, {1}, {2, 3, 1, 4}}) {
    for (const int64_t ranks : {1, 2, 3, 5}) {
      const std::string path = folder.path(std::to_string(number++));
      write_indices(path, cut_in_runs("w", shape, ranks));
      const Checkpoint checkpoint(path);
      for (const int64_t readers : {1, 2, 4}) {
        for (int64_t reader = 0; reader < readers; ++reader) {
          for (const Part& part : {cut_flat({Part(shape)}, readers, reader).front(),
                                   Part(shape).cut(shape.size() - 1, readers, reader)}) {
            const int64_t before = checkpoint.bytes_read();
            for (const Box& box : part.boxes()) {
              EXPECT_EQ(read_box(checkpoint, box), indices_in(shape, box));
            }
            EXPECT_EQ(checkpoint.bytes_read() - before, 4 * part.numel()) << "not a byte more";
          }
        }
      }
      for (size_t i = 0; i < checkpoint.index().files.size(); ++i) checkpoint.verify(i);
    }
  }
}

class DamagedCheckpoint : public testing::Test {
 protected:
  std::string file(size_t i) const { return fs::path(path_) / index_.files.at(i).path; }
  void write(size_t i, const std::string& bytes) const {
    std::ofstream(file(i), std::ios::binary) << bytes;
  }
  std::string content(size_t i) const {
    std::ifstream from(file(i), std::ios::binary);
    return {std::istreambuf_iterator<char>(from), {}};
  }
  std::string read_refusal() const {
    return message_of<DataError>([&] { read_box(Checkpoint(path_), {{6, 5}, {0, 0}}); });
  }
  std::string verify_refusal(size_t i) const {
    return message_of<DataError>([&] { Checkpoint(path_).verify(i); });
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path("c");
  const CheckpointIndex index_ = write_indices(path_, cut_in_runs("w", {6, 5}, 2));
};

TEST_F(DamagedCheckpoint, MissingFilesAreNamed) {
  fs::remove(file(1));
  EXPECT_EQ(read_refusal(), "cannot read " + file(1) + ": No such file or directory");
  fs::remove(fs::path(path_) / "checkpoint.json");
  EXPECT_EQ(read_refusal(),
            path_ +
                " holds no complete checkpoint (no checkpoint.json); give a checkpoint, or a "
                "run directory that has one");
}

TEST_F(DamagedCheckpoint, TruncatedFilesAreNamedAtEveryLength) {
  const std::string whole = content(0);
  for (size_t size = 0; size < whole.size(); ++size) {
    write(0, whole.substr(0, size));
    EXPECT_EQ(read_refusal(), concat(file(0), " has ", size, " bytes, but ", whole.size(),
                                     " were saved; was it truncated or replaced?"));
  }
}

TEST_F(DamagedCheckpoint, EveryFlippedBitIsFound) {
  const std::string whole = content(0);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string altered = whole;
    altered[i] = static_cast<char>(altered[i] ^ (1 << (i % 8)));
    write(0, altered);
    EXPECT_NE(verify_refusal(0).find(file(0)), std::string::npos) << i;
  }
}

TEST_F(DamagedCheckpoint, FilesOfOtherCheckpointsAreRefused) {
  const std::string own = content(0);
  const std::string other = folder_.path("other");
  const CheckpointIndex index = write_indices(other, cut_in_runs("v", {6, 5}, 2));
  fs::copy_file(fs::path(other) / index.files[0].path, file(0),
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(read_refusal(), file(0) +
                                " holds no tensor 'w', which the index expects there; is it "
                                "of another checkpoint?");
  write(0, own);
  EXPECT_EQ(message_of<DataError>([&] {
              std::vector<int32_t> one(1);
              Checkpoint(path_).read("ww", {{1}, {0}}, std::as_writable_bytes(std::span(one)));
            }),
            path_ +
                " holds no tensor 'ww'; did you mean 'w'?; is it a checkpoint of another model "
                "or optimizer?");
}

}  // namespace
}  // namespace tessera
