#include "tessera/data/token_data.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/throws.h"
#include "tests/testkit/token_files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::contains;
using testkit::counting_file;
using testkit::message_of;
using testkit::TemporaryFolder;
using std::string_literals::operator""s;

std::string text_of(const TokenSource& source) {
  std::vector<int64_t> tokens(static_cast<size_t>(source.size()));
  source.read(0, tokens);
  return {tokens.begin(), tokens.end()};
}

std::string content_of_folder(const TemporaryFolder& folder) {
  return text_of(TokenSource(folder.path()));
}

TEST(TokenSource, AFolderIsItsTextsInOrder) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path("b/c"));
  folder.file("z.txt", "last");
  folder.file("b/c/deep.md", "\xc3\xa9");  // Any bytes without 0.
  folder.file("b/a.cpp", "first");
  folder.file("empty", "");
  EXPECT_EQ(content_of_folder(folder), "first\0\xc3\xa9\0last\0"s);
}

TEST(TokenSource, WhatAFolderPassesOver) {
  const TemporaryFolder folder;
  for (const char* const name : {".git", "build", "build-x", "cmake-build-x", "node_modules"}) {
    fs::create_directories(folder.path(name));
    folder.file(std::string(name) + "/file", "unwanted");
  }
  folder.file(".hidden", "unwanted");
  folder.file("picture.svg", "<svg/>");
  folder.file("program",
              "\x7f"
              "ELF\0"s);
  folder.file("builder", "wanted");
  fs::create_symlink(folder.path("builder"), folder.path("link"));
  fs::create_directory_symlink(folder.path(), folder.path("circle"));
  EXPECT_EQ(content_of_folder(folder), "wanted\0"s);
}

TEST(TokenSource, KindsAreKnownByName) {
  const TemporaryFolder folder;
  const std::string bytes = folder.file("t.txt", "ab");
  const std::string numbers = folder.file("t.bin", "\1\0\2\0"s);
  EXPECT_EQ(text_of(TokenSource(bytes)), "ab");
  EXPECT_EQ(text_of(TokenSource(numbers)), "\1\2");
  EXPECT_EQ(text_of(TokenSource(numbers, TokenKind::kBytes)), "\1\0\2\0"s);
  EXPECT_EQ(TokenSource(numbers, TokenKind::kU32).size(), 1);
  EXPECT_EQ(parse_token_kind("u32"), TokenKind::kU32);
  EXPECT_EQ(to_string(TokenKind::kBytes), "bytes");
  EXPECT_TRUE(contains(message_of<ConfigError>([] { parse_token_kind("u31"); }),
                       "choose from auto, bytes, u16, u32; did you mean 'u32'?"));
}

TEST(TokenSource, WhatIsRefused) {
  const TemporaryFolder folder;
  const std::string numbers = folder.file("numbers", "ab\0\0"s);
  EXPECT_TRUE(contains(message_of<DataError>([&] { TokenSource{numbers}; }),
                       "byte 2 is 0, so this is not text; give its kind: u16, u32 or bytes"));
  EXPECT_THROW(TokenSource(folder.path("missing")), DataError);
  fs::create_directories(folder.path("folder/.hidden"));
  EXPECT_TRUE(contains(message_of<DataError>([&] { TokenSource{folder.path("folder")}; }),
                       "holds no text files"));
  EXPECT_THROW(TokenSource(folder.path(), TokenKind::kU16), ConfigError);
}

TEST(TokenSource, TextsThatAreTooLargeAreRefusedByTheirSize) {
  const TemporaryFolder folder;
  fs::resize_file(folder.file("huge.txt", ""), 5'000'000'000);  // Sparse: uses no disk space.
  EXPECT_EQ(message_of<DataError>([&] { TokenSource(folder.path()); }),
            folder.path() +
                " holds at least 5,000,000,000 bytes of text; a folder is read into "
                "memory and may hold at most 4,294,967,296; join the files into one");
}

TEST(TokenSource, IdsBeyondTheVocabularyAreNamed) {
  const TemporaryFolder folder;
  const std::string path = counting_file(folder, "t", 200'000);
  const TokenSource source(path, TokenKind::kU32);
  source.check_vocabulary(200'000);
  EXPECT_EQ(message_of<DataError>([&] { source.check_vocabulary(150'000); }),
            path +
                ": token 150000 is 150000, outside the vocabulary of 150000; were data and "
                "model made with different tokenizers?");
}

// At any position.
TEST(TokenSource, NoTokenIsPassedOver) {
  const TemporaryFolder folder;
  for (const int64_t position : {0, 65535, 65536, 100'000, 199'999}) {
    std::string bytes(400'000, '\0');
    bytes[static_cast<size_t>(2 * position)] = 7;
    const TokenSource source(folder.file("t.bin", bytes));
    source.check_vocabulary(8);
    EXPECT_TRUE(contains(message_of<DataError>([&] { source.check_vocabulary(7); }),
                         concat(": token ", position, " is 7, outside")));
  }
}

TEST(TokenSource, IdsOfATextAreNamedByItsFile) {
  const TemporaryFolder folder;
  folder.file("a", "abc");
  const std::string path = folder.file("b", "ab\x80");
  const TokenSource source(folder.path());
  source.check_vocabulary(256);
  EXPECT_TRUE(contains(message_of<DataError>([&] { source.check_vocabulary(128); }),
                       path + ": byte 2 is 128, outside the vocabulary of 128"));
}

TEST(TokenData, SharesAreSizesOrWeights) {
  const TemporaryFolder folder;
  const std::vector<std::string> paths{folder.file("a", "123"), folder.file("b", "1")};
  const TokenData by_size({.paths = paths});
  EXPECT_EQ(by_size.size(), 4);
  EXPECT_DOUBLE_EQ(by_size.shares()[0], 0.75);
  const TokenData by_weight({.paths = paths, .weights = {1, 4}});
  EXPECT_DOUBLE_EQ(by_weight.shares()[1], 0.8);
}

TEST(TokenData, TheLastPartOfEachSourceIsHeldOut) {
  const TemporaryFolder folder;
  const TokenData data({.paths = {folder.file("a", "0123456789"), folder.file("b", "abcd")}});
  const auto [train, validation] = data.split(0.3);
  EXPECT_EQ(train.sources()[0].size(), 7);
  EXPECT_EQ(validation.sources()[0].size(), 3);
  EXPECT_EQ(validation.sources()[1].size(), 1);
  std::vector<int64_t> tokens(3);
  validation.sources()[0].read(0, tokens);
  EXPECT_EQ(tokens, (std::vector<int64_t>{'7', '8', '9'}));
  EXPECT_THROW(validation.sources()[0].read(1, tokens), ConfigError);
  EXPECT_THROW(train.sources()[0].read(5, tokens), ConfigError);  // Beyond this part.
  EXPECT_THROW(data.split(1.5), ConfigError);
  EXPECT_EQ(data.split(0).train.size(), data.size());
}

TEST(TokenData, WhatIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a", "123");
  EXPECT_THROW(TokenData(DataOptions{}), ConfigError);
  EXPECT_TRUE(
      contains(message_of<ConfigError>([&] { TokenData({.paths = {path}, .weights = {1, 2}}); }),
               "2 weights for 1 paths"));
  EXPECT_THROW(TokenData({.paths = {path, path}, .weights = {1, 0}}), ConfigError);
  EXPECT_THROW(TokenData({.paths = {folder.file("empty", "")}}), DataError);
}

}  // namespace
}  // namespace tessera
