#include "tessera/format/checkpoint/checkpoint_index.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

CheckpointIndex example() {
  return {.step = 7,
          .state = {{"config", "[train]\nsteps = 9\n"}},
          .files = {{"model/a.safetensors", 100, 0x1234}, {"optim/b.safetensors", 50, 0xFFFFFFFF}},
          .tensors = {{"w", {DType::kBF16, {4, 3}, {{0, {{2, 3}, {0, 0}}}, {1, {{2, 3}, {2, 0}}}}}},
                      {"s", {DType::kF32, {1}, {{0, {{1}, {0}}}}}}}};
}

std::string refusal(const std::string& from, const std::string& to) {
  std::string text = to_json(example());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return message_of<DataError>([&] { check_complete(parse_checkpoint_index(text, "f"), "f"); });
}

TEST(CheckpointIndex, IsReadAsWritten) {
  EXPECT_EQ(parse_checkpoint_index(to_json(example()), "f"), example());
  EXPECT_EQ(example().total_bytes(), 150);
  EXPECT_NO_THROW(check_complete(example(), "f"));
}

TEST(CheckpointIndex, RefusesPathsThatLeaveTheFolder) {
  for (const char* path : {"../a.safetensors", "/a.safetensors", "a/b/c.safetensors", "model/..",
                           "./a.safetensors", "model/a.txt", ""}) {
    EXPECT_NE(refusal("model/a.safetensors", path).find("files[0].path is"), std::string::npos)
        << path;
  }
  EXPECT_EQ(refusal("model/a.safetensors", "optim/b.safetensors"),
            "f: file optim/b.safetensors is listed twice");
}

TEST(CheckpointIndex, RefusesBoxesThatDoNotTile) {
  CheckpointIndex index = example();
  index.tensors.at("w").pieces[1].box.offset = {1, 0};
  EXPECT_EQ(message_of<DataError>([&] { check_complete(index, "f"); }),
            "f: the pieces of 'w' do not make up the tensor: boxes (2,3)@(0,0) and "
            "(2,3)@(1,0) overlap");
  index.tensors.at("w").pieces.pop_back();
  EXPECT_EQ(message_of<DataError>([&] { check_complete(index, "f"); }),
            "f: the pieces of 'w' do not make up the tensor: 6 of 12 elements are missing");
}

TEST(CheckpointIndex, RefusesMalformedFields) {
  EXPECT_EQ(refusal("tessera-checkpoint", "other"),
            "f: format is \"other\"; expected \"tessera-checkpoint\"");
  EXPECT_EQ(refusal("\"version\": 1", "\"version\": 2"),
            "f: version is 2; expected 1; this Tessera reads no other version");
  EXPECT_EQ(refusal("\"00001234\"", "\"1234\""),
            "f: files[0].crc32c is \"1234\"; expected 8 hexadecimal digits");
  EXPECT_EQ(refusal("\"file\": 1", "\"file\": 2"),
            "f: tensors.w.pieces[1].file is 2; expected a whole number from 0 to 1");
  EXPECT_EQ(refusal("\"BF16\"", "\"F4\""),
            "f: tensors.w.dtype is \"F4\"; expected a dtype of whole bytes, e.g. \"F32\" or "
            "\"BF16\"");
  EXPECT_EQ(refusal("\"file\": 1", "\"file\": 0"), "f: two pieces of 'w' are in file 0");
}

TEST(CheckpointIndex, RefusesBoxesOutsideTheirTensor) {
  CheckpointIndex index = example();
  index.tensors.at("w").pieces[1].box.offset = {3, 0};
  EXPECT_EQ(message_of<DataError>([&] { parse_checkpoint_index(to_json(index), "f"); }),
            "f: tensors.w.pieces[1] is an object; expected a box inside a tensor of shape [4, 3]");
}

TEST(CheckpointIndex, MergesRanks) {
  CheckpointIndex index = example();
  CheckpointIndex other{.files = {{"model/c.safetensors", 1, 2}},
                        .tensors = {{"v", {DType::kF32, {1}, {{0, {{1}, {0}}}}}}}};
  merge(index, other);
  EXPECT_EQ(index.files.size(), 3U);
  EXPECT_EQ(index.tensors.at("v").pieces[0].file, 2U);
  other.tensors.at("v").shape = {2};
  EXPECT_EQ(message_of<DataError>([&] { merge(index, other); }),
            "'v' is F32 [1] on one rank and F32 [2] on another");
}

}  // namespace
}  // namespace tessera
