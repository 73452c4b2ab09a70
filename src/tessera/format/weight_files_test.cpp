#include "tessera/format/weight_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::TemporaryFolder;

void write_bytes(const std::string& path, const std::vector<std::string>& names) {
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) specs.push_back({name, DType::kU8, {1}});
  SafetensorsWriter writer(path, specs);
  for (const std::string& name : names) writer.write(std::as_bytes(std::span(name).first(1)));
  writer.finish();
}

char value(const WeightFiles& files, std::string_view name) {
  return static_cast<char>(files.bytes(name)[0]);
}

TEST(WeightFiles, OneFile) {
  const TemporaryFolder folder;
  write_bytes(folder.path("model.safetensors"), {"b", "a"});
  const WeightFiles files(folder.path());
  EXPECT_EQ(files.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(value(files, "b"), 'b');
}

TEST(WeightFiles, TheIndexDecidesWhateverFilesAreCalled) {
  const TemporaryFolder folder;
  write_bytes(folder.path("model-00002-of-00001.safetensors"), {"a", "left over"});
  write_bytes(folder.path("x"), {"b"});
  write_bytes(folder.path("model.safetensors"), {"not", "asked"});
  folder.file("model.safetensors.index.json",
              weight_index_json({{"a", "model-00002-of-00001.safetensors"}, {"b", "x"}}, 2));
  const WeightFiles files(folder.path());
  EXPECT_EQ(files.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(files.files().size(), 2U);
  EXPECT_EQ(value(files, "a"), 'a');
  EXPECT_EQ(value(files, "b"), 'b');
  EXPECT_FALSE(files.contains("left over"));
  EXPECT_EQ(files.left_over(),
            std::vector<std::string>{"'left over' in model-00002-of-00001.safetensors"});
}

TEST(WeightFiles, WhatTheIndexDoesNotLeadToIsListed) {
  const TemporaryFolder folder;
  write_bytes(folder.path("x"), {"a", "b"});
  write_bytes(folder.path("y"), {"b", "c"});
  write_bytes(folder.path("model-00003-of-00003.safetensors"), {"d"});
  write_bytes(folder.path("consolidated.safetensors"), {"other names"});
  folder.file("model.safetensors.index.json",
              weight_index_json({{"a", "x"}, {"b", "y"}, {"c", "y"}}, 3));
  EXPECT_EQ(WeightFiles(folder.path()).left_over(),
            (std::vector<std::string>{"'b' in x", "model-00003-of-00003.safetensors"}));
}

TEST(WeightFiles, WhatIsMissingIsNamed) {
  const TemporaryFolder folder;
  EXPECT_NE(message_of<DataError>([&] { WeightFiles{folder.path()}; }).find("holds neither"),
            std::string::npos);
  write_bytes(folder.path("x"), {"weight"});
  const std::string index =
      folder.file("model.safetensors.index.json", R"({"weight_map":{"wait":"x"}})");
  EXPECT_EQ(message_of<DataError>([&] { WeightFiles{folder.path()}; }),
            index + ": 'wait' should be in x, but is not");
  folder.file("model.safetensors.index.json", R"({"weight_map":{"weight":"y"}})");
  EXPECT_NE(message_of<DataError>([&] { WeightFiles{folder.path()}; }).find("cannot open"),
            std::string::npos);
  folder.file("model.safetensors.index.json", R"({"weight_map":{"weight":"x"}})");
  const WeightFiles files(folder.path());
  EXPECT_EQ(message_of<DataError>([&] { files.spec("weigth"); }),
            folder.path() + " holds no tensor 'weigth'; did you mean 'weight'?");
}

TEST(WeightFiles, AnIndexStaysInItsFolder) {
  for (const std::string_view file : {"../x", "/etc/passwd", "a/b", "", ".."}) {
    EXPECT_THROW(parse_weight_index(concat(R"({"weight_map":{"a":")", file, R"("}})"), "i"),
                 DataError)
        << file;
  }
}

const std::vector<TensorSpec> kThree{
    {"a", DType::kU8, {2}}, {"b", DType::kU8, {3}}, {"c", DType::kU8, {1}}};

void write_name(const TensorSpec& spec, SafetensorsWriter& file) {
  const std::string bytes(static_cast<size_t>(spec.shape[0]), spec.name[0]);
  file.write(std::as_bytes(std::span(bytes)));
}

TEST(WriteWeightFiles, ATensorThatDoesNotFitOpensTheNextFile) {
  const TemporaryFolder folder;
  const std::string made = folder.path("not/there/yet");
  write_weight_files(made, kThree, 4, write_name);
  const WeightFiles files(made);
  EXPECT_EQ(files.files().size(), 2U);
  EXPECT_EQ(files.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(value(files, "c"), 'c');
  EXPECT_TRUE(std::filesystem::exists(made + "/model-00002-of-00002.safetensors"));
}

TEST(WriteWeightFiles, WhatFitsIsOneFileWithoutIndex) {
  const TemporaryFolder folder;
  write_weight_files(folder.path(), kThree, 6, write_name);
  EXPECT_TRUE(std::filesystem::exists(folder.path(kWeightFile)));
  EXPECT_FALSE(std::filesystem::exists(folder.path(kWeightIndex)));
  EXPECT_EQ(WeightFiles(folder.path()).files()[0].metadata(), (Metadata{{"format", "pt"}}));
}

// A tensor larger than a shard gets its own file.
TEST(WriteWeightFiles, FilesMayBeSmallerThanTheirTensors) {
  const TemporaryFolder folder;
  write_weight_files(folder.path(), kThree, 1, write_name);
  EXPECT_EQ(WeightFiles(folder.path()).files().size(), 3U);
}

TEST(WriteWeightFiles, FailureLeavesNoFolderThatLooksWhole) {
  const TemporaryFolder folder;
  const auto fails = [](const TensorSpec& spec, SafetensorsWriter& file) {
    if (spec.name == "c") throw DataError("the disk is full");
    write_name(spec, file);
  };
  EXPECT_THROW(write_weight_files(folder.path(), kThree, 4, fails), DataError);
  EXPECT_THROW(WeightFiles{folder.path()}, DataError);
}

TEST(WriteWeightFiles, WeightsThatAreThereStay) {
  const TemporaryFolder folder;
  write_weight_files(folder.path(), kThree, 4, write_name);
  EXPECT_EQ(message_of<ConfigError>([&] { write_weight_files(folder.path(), {}, 4, write_name); }),
            folder.path() +
                " already holds weights (model.safetensors.index.json); choose another "
                "folder or remove them");
  EXPECT_EQ(WeightFiles(folder.path()).names().size(), 3U);
}

TEST(WriteWeightFiles, AFolderThatCannotBeMadeIsNamed) {
  const TemporaryFolder folder;
  const std::string file = folder.file("taken", "");
  EXPECT_EQ(message_of<DataError>([&] { write_weight_files(file + "/x", kThree, 4, write_name); }),
            "cannot create folder " + file + "/x: Not a directory");
}

}  // namespace
}  // namespace tessera
