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

}  // namespace
}  // namespace tessera
