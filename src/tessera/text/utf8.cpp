#include "tessera/text/internal/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tessera::text::detail {
namespace {

unsigned char byte_at(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// What the bytes at one place are.
struct Sequence {
  size_t bytes = 0;     // Those that belong together, at least one.
  size_t expected = 0;  // Those of a whole character; 0 if the first byte begins none.
  bool whole() const { return bytes == expected; }
};

// The range of second bytes excludes overlong forms, surrogates and what lies beyond U+10FFFF.
Sequence sequence_at(std::string_view text, size_t at) {
  const unsigned char first = byte_at(text, at);
  if (first < 0x80) return {1, 1};
  if (first < 0xc2 || first > 0xf4) return {1, 0};
  const size_t expected = width_of(text[at]);
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  size_t bytes = 1;
  while (bytes < expected && at + bytes < text.size()) {
    const unsigned char next = byte_at(text, at + bytes);
    if (next < low || next > high) break;
    low = 0x80;
    high = 0xbf;
    ++bytes;
  }
  return {bytes, expected};
}

// Most texts are mostly ASCII: eight bytes at a time.
size_t skip_ascii(std::string_view text, size_t at) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  while (at + sizeof(uint64_t) <= text.size()) {
    uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, sizeof(eight));
    if ((eight & kHighBits) != 0) break;
    at += sizeof(eight);
  }
  while (at < text.size() && byte_at(text, at) < 0x80) ++at;
  return at;
}

}  // namespace

char32_t first_character(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  const size_t width = width_of(text[0]);
  if (width == 1) return first;
  char32_t character = first & (0xffU >> (width + 1));
  for (size_t i = 1; i < width; ++i) character = character << 6U | (byte_at(text, i) & 0x3fU);
  return character;
}

char32_t last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (byte_at(text, begin) & 0xc0U) == 0x80) --begin;
  return first_character(text.substr(begin));
}

void append_character(std::string& text, char32_t character) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) return add(character);
  if (character < 0x800) {
    add(0xc0 | character >> 6U);
  } else if (character < 0x10000) {
    add(0xe0 | character >> 12U);
    add(0x80 | (character >> 6U & 0x3fU));
  } else {
    add(0xf0 | character >> 18U);
    add(0x80 | (character >> 12U & 0x3fU));
    add(0x80 | (character >> 6U & 0x3fU));
  }
  add(0x80 | (character & 0x3fU));
}

std::optional<size_t> find_invalid(std::string_view text) {
  for (size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    const Sequence sequence = sequence_at(text, at);
    if (!sequence.whole()) return at;
    at += sequence.bytes;
  }
  return std::nullopt;
}

std::string repaired(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, at);
    text += sequence.whole() ? bytes.substr(at, sequence.bytes) : kReplacement;
    at += sequence.bytes;
  }
  return text;
}

size_t incomplete_tail(std::string_view bytes) {
  for (size_t tail = 1; tail <= std::min<size_t>(3, bytes.size()); ++tail) {
    const size_t at = bytes.size() - tail;
    if ((byte_at(bytes, at) & 0xc0U) == 0x80) continue;
    const Sequence sequence = sequence_at(bytes, at);
    return sequence.bytes == tail && sequence.bytes < sequence.expected ? tail : 0;
  }
  return 0;
}

}  // namespace tessera::text::detail
