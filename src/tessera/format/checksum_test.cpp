#include "tessera/format/checksum.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Checksum, IsTheOneOfTheStandard) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c(bytes_of("")), 0U);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8A9136AAU);  // RFC 3720.
}

TEST(Checksum, DoesNotDependOnThePieces) {
  const std::string text = "The quick brown fox jumps over the lazy dog, twice.";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = crc32c(bytes_of(text).first(cut));
    EXPECT_EQ(crc32c(bytes_of(text).subspan(cut), first), crc32c(bytes_of(text))) << cut;
  }
}

// Bit by bit, as the standard defines it.
uint32_t defined_checksum(const std::string& text) {
  uint32_t value = 0xFFFFFFFFU;
  for (const char byte : text) {
    value ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0);
  }
  return ~value;
}

TEST(Checksum, OfLongTextsIsTheSame) {
  std::string text;
  for (int64_t i = 0; i < 80'000; ++i) text += static_cast<char>(i * i % 251);
  for (const size_t size : {24'575, 24'576, 24'577, 49'151, 49'160, 80'000}) {
    EXPECT_EQ(crc32c(bytes_of(text).first(size)), defined_checksum(text.substr(0, size))) << size;
  }
  const uint32_t first = crc32c(bytes_of(text).first(30'001));
  EXPECT_EQ(crc32c(bytes_of(text).subspan(30'001), first), defined_checksum(text));
}

}  // namespace
}  // namespace tessera
