#include "tessera/format/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "tessera/base/error.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::TemporaryFolder;

std::vector<std::byte> with_header(std::string_view header, size_t data_bytes) {
  std::vector<std::byte> file(8 + header.size() + data_bytes);
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

SafetensorsHeader parsed(std::string_view header, size_t data_bytes) {
  return parse_safetensors(with_header(header, data_bytes), "f");
}

std::string refusal(std::string_view header, size_t data_bytes) {
  return message_of<DataError>([&] { parsed(header, data_bytes); });
}

constexpr std::string_view kTwo =
    R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
    R"("a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"__metadata__":{"format":"pt"}}  )";

TEST(Safetensors, TensorsComeInTheOrderOfTheirBytes) {
  const SafetensorsHeader header = parsed(kTwo, 12);
  const int64_t begin = 8 + static_cast<int64_t>(kTwo.size());
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[0].spec, (TensorSpec{"a", DType::kBF16, {2, 1}}));
  EXPECT_EQ(header.tensors[0].begin, begin);
  EXPECT_EQ(header.tensors[1].spec, (TensorSpec{"b", DType::kF32, {2}}));
  EXPECT_EQ(header.tensors[1].end, begin + 12);
  EXPECT_EQ(header.metadata, (Metadata{{"format", "pt"}}));
}

TEST(Safetensors, ScalarsAndEmptyTensors) {
  const SafetensorsHeader header =
      parsed(R"({"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
             R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[8,8]},)"
             R"("q":{"dtype":"F4","shape":[4],"data_offsets":[8,10]}})",
             10);
  EXPECT_EQ(header.tensors.size(), 3U);
}

// Some mixture-of-experts models have as many; a parser with a callback takes minutes for them.
TEST(Safetensors, NinetyThousandTensors) {
  std::string text = "{";
  for (int i = 0; i < 90'000; ++i) {
    text += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[],"data_offsets":[)" + std::to_string(i) + "," +
            std::to_string(i + 1) + "]}";
  }
  EXPECT_EQ(parsed(text + "}", 90'000).tensors.size(), 90'000U);
}

TEST(Safetensors, NoTensorsAtAll) {
  EXPECT_TRUE(parsed("{}", 0).tensors.empty());
}

TEST(Safetensors, WhatIsRefusedNamesTheOffset) {
  EXPECT_EQ(
      message_of<DataError>([] { parse_safetensors({}, "f"); }),
      "f: 0 bytes at offset 0; a safetensors file starts with 8 bytes that give the length of "
      "its header");
  auto longer = with_header("{}", 0);
  longer[0] = std::byte{200};
  EXPECT_EQ(message_of<DataError>([&] { parse_safetensors(longer, "f"); }),
            "f: the header of 200 bytes at offset 8 is longer than the file of 10 bytes; was it "
            "truncated?");
  longer[7] = std::byte{1};
  EXPECT_NE(message_of<DataError>([&] { parse_safetensors(longer, "f"); }).find("100,000,000"),
            std::string::npos);
  EXPECT_EQ(refusal(" {}", 0), "f: the header at offset 8 does not start with '{'");
  EXPECT_EQ(refusal("{\"a\":", 0),
            "f: broken JSON near byte 12; was it truncated, or is it not a safetensors header?");
  EXPECT_EQ(refusal("{\"a\":x}", 0).find("f: broken JSON near byte 13;"), 0U);
  EXPECT_EQ(refusal("{\"a\":1e999}", 0).find("f: broken JSON near byte 18;"), 0U);
}

TEST(Safetensors, BytesBelongToExactlyOneTensor) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                    7),
            "f: 'b' starts at offset 116, within another tensor that ends at 117");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6),
            "f: the bytes from offset 61 to 63, before 'a', belong to no tensor");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 6),
            "f: the bytes from offset 65 to 67, at the end, belong to no tensor");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3),
            "f: its tensors end at offset 65, but the file has 64 bytes; was it truncated?");
}

TEST(Safetensors, HeadersThatContradictThemselves) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,4]}})", 4),
            "f: a.data_offsets is a list; expected offsets 16 bytes apart, as F32 [4] needs");
  EXPECT_NE(refusal(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)
                .find("a.shape[0] is -1"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4)
                .find("expected a dtype of safetensors"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4)
                .find("the first not beyond the second"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0)
          .find("an impossible number"),
      std::string::npos);
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                    1),
            R"(f: "a" appears twice near byte 63)");
  EXPECT_NE(refusal(R"({"__metadata__":{"n":3}})", 0).find("__metadata__.n is 3; expected text"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"a":[[[[[[]]]]]]})", 0).find("nested too deeply"), std::string::npos);
}

TEST(SafetensorsWriter, TheWidestComeFirstAndAllAreAligned) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.safetensors");
  SafetensorsWriter writer(
      path, {{"byte", DType::kU8, {3}}, {"half", DType::kBF16, {2}}, {"wide", DType::kF64, {1}}},
      {{"format", "pt"}});
  std::vector<std::string> order;
  for (const TensorSpec& spec : writer.tensors()) order.push_back(spec.name);
  EXPECT_EQ(order, (std::vector<std::string>{"wide", "half", "byte"}));
  const std::vector<std::byte> bytes(15, std::byte{7});
  writer.write(std::span(bytes).first(5));
  writer.write(std::span(bytes).subspan(5));
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();

  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  for (const StoredTensor& tensor : file.tensors()) {
    EXPECT_EQ(tensor.begin % (bits_of(tensor.spec.dtype) / 8), 0) << tensor.spec.name;
    EXPECT_EQ(file.bytes(tensor)[0], std::byte{7});
  }
  EXPECT_EQ(file.find("half")->spec.shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(file.find("none"), nullptr);
}

TEST(SafetensorsWriter, WhatIsNotFinishedLeavesNothingBehind) {
  const TemporaryFolder folder;
  const std::string path = folder.path("model.safetensors");
  {
    SafetensorsWriter writer(path, {{"a", DType::kU8, {2}}});
    EXPECT_THROW(writer.finish(), ConfigError);
    EXPECT_THROW(writer.write(std::vector<std::byte>(3)), ConfigError);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsWriter, NamesThatCannotBe) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  EXPECT_THROW(SafetensorsWriter(path, {{"__metadata__", DType::kU8, {}}}), ConfigError);
  EXPECT_THROW(SafetensorsWriter(path, {{"", DType::kU8, {}}}), ConfigError);
  EXPECT_THROW(SafetensorsWriter(path, {{"a", DType::kU8, {}}, {"a", DType::kU8, {}}}),
               ConfigError);
  EXPECT_THROW(SafetensorsWriter(path, {{"a", DType::kF4, {3}}}), ConfigError);
  EXPECT_THROW(SafetensorsWriter(folder.path("no/such/f"), {}), DataError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

RC_GTEST_PROP(SafetensorsWriter, WhatIsWrittenIsRead, ()) {
  const int count = *rc::gen::inRange(0, 8);
  std::vector<TensorSpec> specs;
  for (int i = 0; i < count; ++i) {
    const auto dtype = *rc::gen::element(DType::kU8, DType::kBF16, DType::kF32, DType::kI64);
    std::vector<int64_t> shape(static_cast<size_t>(*rc::gen::inRange(0, 4)));
    for (int64_t& size : shape) size = *rc::gen::inRange<int64_t>(0, 6);
    specs.push_back({std::to_string(i), dtype, shape});
  }
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.path("f"), specs);
  unsigned char next = 0;
  for (const TensorSpec& spec : writer.tensors()) {
    std::vector<unsigned char> bytes(static_cast<size_t>(*bytes_of(spec.dtype, spec.shape)));
    std::iota(bytes.begin(), bytes.end(), next);
    next = static_cast<unsigned char>(next + bytes.size());
    writer.write(std::as_bytes(std::span(bytes)));
  }
  writer.finish();
  const SafetensorsFile file(folder.path("f"));
  RC_ASSERT(file.tensors().size() == specs.size());
  for (const TensorSpec& spec : specs) RC_ASSERT(file.find(spec.name)->spec == spec);
  next = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    std::vector<std::byte> copy(static_cast<size_t>(tensor.num_bytes()));
    file.read(tensor, 0, copy);
    RC_ASSERT(std::ranges::equal(copy, file.bytes(tensor)));
    file.read(tensor, copy.size() / 2, std::span(copy).subspan(copy.size() / 2));
    for (const std::byte byte : copy) RC_ASSERT(byte == std::byte{next++});
  }
}

TEST(SafetensorsFile, ReadsNoMoreThanThereIs) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  SafetensorsWriter writer(path, {{"a", DType::kU8, {8}}});
  std::vector<std::byte> bytes(8);
  writer.write(bytes);
  writer.finish();
  const SafetensorsFile file(path);
  const StoredTensor& tensor = file.tensors()[0];
  const auto read = [&](size_t begin, size_t size) {
    file.read(tensor, begin, std::span(bytes).first(size));
  };
  EXPECT_EQ(message_of<ConfigError>([&] { read(1, 8); }),
            "'a' has 8 bytes; 8 from 1 on were requested");
  EXPECT_THROW(read(9, 0), ConfigError);
  std::filesystem::resize_file(path, static_cast<uintmax_t>(tensor.begin) + 3);
  EXPECT_NE(message_of<DataError>([&] { read(0, 8); }).find("truncated in the meantime"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
