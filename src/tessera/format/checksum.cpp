#include "tessera/format/checksum.h"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace tessera {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // Reflected.

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[byte] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

uint32_t by_table(std::span<const std::byte> bytes, uint32_t value) {
  for (const std::byte byte : bytes) {
    value = (value >> 8) ^ kTable[(value ^ static_cast<uint32_t>(byte)) & 255];
  }
  return value;
}

#ifdef __x86_64__
// The instruction takes three cycles, but a new one can start in each: three lanes side by side.
constexpr size_t kLane = 8192;
using ShiftTables = std::array<std::array<uint32_t, 256>, 4>;

// The checksum after kLane further zeros is linear in its bits, so it is the sum of four entries.
ShiftTables make_shift_tables() {
  std::array<uint32_t, 32> of_bit{};
  for (size_t bit = 0; bit < of_bit.size(); ++bit) {
    uint32_t value = uint32_t{1} << bit;
    for (size_t i = 0; i < kLane; ++i) value = (value >> 8) ^ kTable[value & 255];
    of_bit[bit] = value;
  }
  ShiftTables tables{};
  for (size_t byte = 0; byte < tables.size(); ++byte) {
    for (size_t value = 0; value < 256; ++value) {
      for (size_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit & 1) != 0) tables[byte][value] ^= of_bit[8 * byte + bit];
      }
    }
  }
  return tables;
}

uint32_t after_lane(uint32_t value) {
  static const ShiftTables shift = make_shift_tables();  // Too many steps for a constant of clang.
  return shift[0][value & 255] ^ shift[1][value >> 8 & 255] ^ shift[2][value >> 16 & 255] ^
         shift[3][value >> 24];
}

uint64_t word_at(const std::byte* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t three_lanes(const std::byte* bytes, uint32_t value) {
  uint64_t a = value, b = 0, c = 0;
  for (size_t i = 0; i < kLane; i += sizeof(uint64_t)) {
    a = _mm_crc32_u64(a, word_at(bytes + i));
    b = _mm_crc32_u64(b, word_at(bytes + i + kLane));
    c = _mm_crc32_u64(c, word_at(bytes + i + 2 * kLane));
  }
  const uint32_t first_two = after_lane(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
  return after_lane(first_two) ^ static_cast<uint32_t>(c);
}

__attribute__((target("sse4.2"))) uint32_t by_instruction(std::span<const std::byte> bytes,
                                                          uint32_t value) {
  for (; bytes.size() >= 3 * kLane; bytes = bytes.subspan(3 * kLane)) {
    value = three_lanes(bytes.data(), value);
  }
  uint64_t wide = value;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    wide = _mm_crc32_u64(wide, word_at(bytes.data()));
  }
  return by_table(bytes, static_cast<uint32_t>(wide));
}
#endif

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~by_instruction(bytes, ~before);
#endif
  return ~by_table(bytes, ~before);
}

}  // namespace tessera
