#include "tessera/format/token_file.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::TemporaryFolder;
using std::string_literals::operator""s;

std::vector<int64_t> tokens_of(const TokenFile& file, int64_t begin, size_t count) {
  std::vector<int64_t> tokens(count);
  file.read(begin, tokens);
  return tokens;
}

TEST(TokenFile, BareNumbersOfEachWidth) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.bin", "\1\0\2\0\xff\xff\0\0"s);
  EXPECT_EQ(tokens_of(TokenFile(path), 0, 4), (std::vector<int64_t>{1, 2, 65535, 0}));
  EXPECT_EQ(tokens_of(TokenFile(path), 1, 2), (std::vector<int64_t>{2, 65535}));
  EXPECT_EQ(tokens_of(TokenFile(path, DType::kU32), 1, 1), (std::vector<int64_t>{65535}));
  EXPECT_EQ(tokens_of(TokenFile(path, DType::kU8), 4, 1), (std::vector<int64_t>{255}));
}

TEST(TokenFile, NpySaysItself) {
  const TemporaryFolder folder;
  const std::string header = "{'descr':'<i4','fortran_order':False,'shape':(2,)}";
  const std::string path =
      folder.file("t.npy", "\x93NUMPY\1\0\x32\0"s + header + "\5\0\0\0\xff\xff\xff\xff"s);
  const TokenFile file(path);
  EXPECT_EQ(file.size(), 2);
  EXPECT_EQ(tokens_of(file, 0, 1), (std::vector<int64_t>{5}));
  EXPECT_EQ(message_of<DataError>([&] { tokens_of(file, 0, 2); }),
            path + ": token 1 is -1, but ids must be at least 0");
}

TEST(TokenFile, WhatIsRefused) {
  const TemporaryFolder folder;
  const std::string odd = folder.file("t.bin", "abc");
  EXPECT_NE(
      message_of<DataError>([&] { TokenFile{odd}; }).find("3 bytes are not a whole number of U16"),
      std::string::npos);
  EXPECT_THROW(TokenFile(odd, DType::kF32), ConfigError);
  EXPECT_THROW(TokenFile(folder.path("none")), DataError);
  EXPECT_THROW(TokenFile{folder.path()}, DataError);
  const TokenFile file(odd, DType::kU8);
  EXPECT_EQ(message_of<ConfigError>([&] { tokens_of(file, 2, 2); }),
            "tokens 2 to 4 of " + odd + " were requested, which has 3");
  EXPECT_THROW(tokens_of(file, -1, 1), ConfigError);
  EXPECT_EQ(TokenFile(folder.file("empty", "")).size(), 0);
}

}  // namespace
}  // namespace tessera
