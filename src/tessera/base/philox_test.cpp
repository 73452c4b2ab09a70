#include "tessera/base/philox.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Words = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

// The published answers of Random123 for philox4x32-10: zeros, ones, digits of pi.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({}, {}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, IsKnownToTheCompiler) {
  static_assert(philox4x32({}, Key{})[0] == 0x6627e8d5);
}

}  // namespace
}  // namespace tessera
