#include "tessera/text/internal/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/text/internal/regex.h"
#include "tessera/text/internal/utf8.h"

namespace tessera::text::detail {
namespace {

Pattern translated(const std::string& text) {
  const nlohmann::json json = text;
  const JsonSource source{.origin = "t", .what = "tokenizer"};
  return translate_pattern(text, JsonField(json, source));
}

// How many of all characters match.
int64_t characters_of(const std::string& text) {
  static const std::string kAll = [] {
    std::string all;
    for (char32_t character = 0; character < 0x110000; ++character) {
      if (character < 0xd800 || character >= 0xe000) append_character(all, character);
    }
    return all;
  }();
  const Regex regex(translated(text + "+").text, "t");
  Matcher matcher;
  int64_t count = 0;
  for (auto match = regex.find(kAll, 0, matcher); match;
       match = regex.find(kAll, match->end, matcher)) {
    count += std::count_if(kAll.begin() + static_cast<std::ptrdiff_t>(match->begin),
                           kAll.begin() + static_cast<std::ptrdiff_t>(match->end),
                           [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; });
  }
  return count;
}

// As many as Oniguruma with Unicode 16 counts.
TEST(Pattern, ClassesAreThoseOfUnicode16) {
  EXPECT_EQ(characters_of("\\p{L}"), 141'028);
  EXPECT_EQ(characters_of("\\p{N}"), 1'911);
  EXPECT_EQ(characters_of("\\p{M}"), 2'501);
  EXPECT_EQ(characters_of("\\p{P}"), 855);
  EXPECT_EQ(characters_of("\\p{S}"), 8'514);
  EXPECT_EQ(characters_of("\\s"), 25);
  EXPECT_EQ(characters_of("\\d"), 760);
  EXPECT_EQ(characters_of("\\w"), 144'671);
  EXPECT_EQ(characters_of("\\S"), 0x110000 - 0x800 - 25);
  EXPECT_EQ(characters_of("[\\S]"), 0x110000 - 0x800 - 25);
  EXPECT_EQ(characters_of("[^\\s\\p{L}\\p{N}]"), 0x110000 - 0x800 - 25 - 141'028 - 1'911);
}

TEST(Pattern, IsWrittenInTheOtherLanguage) {
  EXPECT_EQ(translated("(a|b){,3}\\v\\u00e9").text, "(?:a|b){0,3}\\x0B\\x{00e9}");
  EXPECT_EQ(translated("[^\\r\\n-]+\\-\\x41").text, "[^\\r\\n-]+\\-\\x{41}");
  EXPECT_TRUE(translated("(?i:'s)|a(?!b)").is_local);
  EXPECT_FALSE(translated("(?<=a)b").is_local);
}

TEST(Regex, TellsWhatDependsOnTheRest) {
  const Regex words("a+", "t");
  Matcher matcher;
  EXPECT_EQ(words.find("xaab", 0, matcher, true)->end, 3U);
  EXPECT_EQ(words.find("xaa", 0, matcher, true)->end, std::string::npos);
  EXPECT_EQ(words.find("xaa", 0, matcher)->end, 3U);
  EXPECT_FALSE(words.find("xyz", 0, matcher, true));
}

TEST(Utf8, RepairsAsLossyDecodersDo) {
  EXPECT_EQ(repaired("a\xf0\x9f\x99"
                     "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(repaired("\xc0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(incomplete_tail("a\xf0\x9f\x99"), 3U);
  EXPECT_EQ(incomplete_tail("a\xf0\x9f\x99\x82"), 0U);
  EXPECT_EQ(incomplete_tail("\xff\x80"), 0U);
}

}  // namespace
}  // namespace tessera::text::detail
