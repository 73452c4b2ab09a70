// Texts of random characters, encoded and decoded, as a whole and in parts.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tessera/text/internal/utf8.h"
#include "tests/testkit/tokenizers.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::parse_tokenizer;
using testkit::tokenizer_document;
using testkit::tokenizer_with;

// Words, spaces and line breaks, added tokens, marks and characters of all widths.
std::string any_text() {
  static const std::vector<std::string> kParts{"the",
                                               "rank",
                                               " ",
                                               " ",
                                               "  ",
                                               "\n",
                                               "\n\n",
                                               "\r\n",
                                               "\t",
                                               "'s",
                                               "'LL",
                                               "12345",
                                               "7",
                                               "a",
                                               "Z",
                                               ".",
                                               "!?",
                                               "<|eot|>",
                                               "<|bos|>",
                                               "<s>",
                                               "</s>",
                                               "<think>",
                                               "<|endoftext|>",
                                               "e\xCC\x81",
                                               "\xCC\xA3\xCC\x87",
                                               "\xC3\xA9",
                                               "\xE2\x96\x81",
                                               "\xE4\xB8\xAD",
                                               "\xF0\x9F\x99\x82",
                                               "\xE3\x80\x80",
                                               "\xE1\xA0\x8E",
                                               "\xEA\xB0\x80",
                                               "x y",
                                               "tessera",
                                               "<0x0A>"};
  std::string text;
  const auto indices =
      *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, kParts.size() + 1));
  for (const size_t index : indices) {
    if (index < kParts.size()) {
      text += kParts[index];
      continue;
    }
    const auto character = *rc::gen::inRange<uint32_t>(1, 0x110000);
    if (character < 0xd800 || character >= 0xe000) text::detail::append_character(text, character);
  }
  return text;
}

const Tokenizer& tokenizer_of(size_t index) {
  static const std::vector<Tokenizer> kAll = [] {
    const json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", true}};
    const json metaspace{{"type", "Metaspace"},
                         {"replacement", "\xE2\x96\x81"},
                         {"prepend_scheme", "always"},
                         {"split", true}};
    const json legacy{
        {"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "\xE2\x96\x81"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xE2\x96\x81"}}}}};
    return std::vector<Tokenizer>{
        parse_tokenizer(tokenizer_document("llama3")),
        parse_tokenizer(tokenizer_document("qwen")),
        parse_tokenizer(tokenizer_document("llama2")),
        parse_tokenizer(tokenizer_with("llama3", {{"pre_tokenizer", byte_level}})),
        parse_tokenizer(tokenizer_with("llama2", {{"pre_tokenizer", metaspace}})),
        parse_tokenizer(
            tokenizer_with("llama2", {{"normalizer", legacy}, {"pre_tokenizer", nullptr}})),
        parse_tokenizer(tokenizer_with("llama2", {{"model", {{"byte_fallback", false}}}}))};
  }();
  return kAll.at(index);
}

RC_GTEST_PROP(TokenizerProperty, BytesComeBackAsTheyWere, ()) {
  const std::string text = any_text();
  const Tokenizer& tokenizer = tokenizer_of(0);
  const std::vector<int64_t> ids = tokenizer.encode(text, {.add_special = false});
  RC_ASSERT(tokenizer.decode(ids, {.keep_special = true}) == text);
}

// Encoding its own answer again changes nothing more: what was normalized stays so.
RC_GTEST_PROP(TokenizerProperty, NormalizedTextComesBackAsItWas, ()) {
  const Tokenizer& tokenizer = tokenizer_of(1);
  const auto round = [&](const std::string& text) {
    return tokenizer.decode(tokenizer.encode(text), {.keep_special = true});
  };
  const std::string once = round(any_text());
  RC_ASSERT(round(once) == once);
}

// Any ids, in any order: most are no text.
RC_GTEST_PROP(TokenizerProperty, StreamedTextIsThatOfTheWhole, ()) {
  const Tokenizer& tokenizer = tokenizer_of(*rc::gen::inRange<size_t>(0, 7));
  const auto ids = *rc::gen::container<std::vector<int64_t>>(
      rc::gen::inRange<int64_t>(0, tokenizer.vocab_size() + 1));
  const DecodeOptions options{.keep_special = *rc::gen::arbitrary<bool>()};
  DecodeStream stream(tokenizer, options);
  std::string text;
  for (const int64_t id : ids) text += stream.push(id);
  text += stream.finish();
  RC_ASSERT(text == tokenizer.decode(ids, options));
}

// Wherever a text may be divided, its parts give the ids of the whole.
RC_GTEST_PROP(TokenizerProperty, PartsGiveTheIdsOfTheWhole, ()) {
  const Tokenizer& tokenizer = tokenizer_of(*rc::gen::inRange<size_t>(0, 7));
  const std::string text = any_text();
  const auto step = *rc::gen::inRange<size_t>(1, 20);
  Encoder encoder(tokenizer);
  std::vector<int64_t> ids;
  size_t begin = 0;
  size_t divisions = 0;
  for (size_t from = step; begin < text.size();) {
    const std::string_view rest = std::string_view(text).substr(begin);
    const auto division = tokenizer.find_division(rest, from);
    const size_t size = division.value_or(rest.size());
    const size_t before = ids.size();
    if (encoder.append_part({.text = rest, .size = size, .continues = begin > 0}, ids)) {
      begin += size;
      from = step;
      divisions += division ? 1 : 0;
    } else {
      RC_ASSERT(division.has_value());
      ids.resize(before);
      from = size + 1;
    }
  }
  RC_ASSERT(ids == tokenizer.encode(text, {.add_special = false}));
  RC_CLASSIFY(divisions > 0, "divided");
}

}  // namespace
}  // namespace tessera
