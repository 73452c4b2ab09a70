// `tessera inspect` as a user runs it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/format/safetensors.h"
#include "tessera/format/weight_files.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::TemporaryFolder;

testkit::Finished inspect(const std::string& arguments) {
  return testkit::run(TESSERA_PROGRAM " inspect " + arguments);
}

void write_weights(const std::string& path, const std::string& name) {
  SafetensorsWriter writer(path, {{name, DType::kBF16, {3, 2}}});
  writer.write(std::vector<std::byte>(12));
  writer.finish();
}

TEST(Inspect, ListsAFile) {
  const TemporaryFolder folder;
  write_weights(folder.path("a.safetensors"), "model.norm.weight");
  const auto result = inspect(folder.path("a.safetensors"));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out,
            "tensor             dtype  shape  bytes  file\n"
            "model.norm.weight  BF16   3 × 2     12  a.safetensors\n\n" +
                folder.path("a.safetensors") + " is whole: 1 tensor, 6 numbers, 12 bytes\n");
}

TEST(Inspect, ListsAFolderAsJson) {
  const TemporaryFolder folder;
  write_weights(folder.path("x"), "b");
  write_weights(folder.path("y"), "a");
  folder.file("model.safetensors.index.json", weight_index_json({{"a", "y"}, {"b", "x"}}, 24));
  const auto result = inspect("--json " + folder.path());
  EXPECT_EQ(result.code, 0);
  const auto tensors = nlohmann::json::parse(result.out)["tensors"];
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0]["name"], "a");
  EXPECT_EQ(tensors[0]["file"], "y");
  EXPECT_EQ(tensors[1]["shape"], nlohmann::json({3, 2}));
}

TEST(Inspect, AFolderIsNotWholeWhereItsIndexLeavesTensorsOut) {
  const TemporaryFolder folder;
  write_weights(folder.path("x"), "b");
  SafetensorsWriter two(folder.path("y"), {{"a", DType::kU8, {1}}, {"c", DType::kU8, {1}}});
  two.write(std::vector<std::byte>(1));
  two.write(std::vector<std::byte>(1));
  two.finish();
  folder.file("model.safetensors.index.json", weight_index_json({{"a", "y"}, {"b", "x"}}, 14));
  const auto result = inspect(folder.path());
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "tessera: " + folder.path() +
                            " is not whole: its index leaves out 'c' in y; is "
                            "model.safetensors.index.json of another model?\n");
}

TEST(Inspect, AFileNameNeedNotBeText) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a\xff.safetensors");
  write_weights(path, "b");
  const auto result = inspect("--json " + path);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["tensors"][0]["file"], "a\xef\xbf\xbd.safetensors");
}

TEST(Inspect, RefusesWhatIsNotWhole) {
  const TemporaryFolder folder;
  const std::string path = folder.file("cut.safetensors", "abc");
  const auto cut = inspect(path);
  EXPECT_EQ(cut.code, 1);
  EXPECT_NE(cut.err.find("3 bytes at offset 0"), std::string::npos) << cut.err;
  const auto missing = inspect(folder.path("none"));
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("cannot open"), std::string::npos) << missing.err;
  EXPECT_EQ(inspect("").code, 2);
}

}  // namespace
}  // namespace tessera
