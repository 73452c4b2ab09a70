#include "tessera/text/tokenizer.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/text/model_tokens.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"
#include "tests/testkit/tokenizers.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::message_of;
using testkit::parse_tokenizer;
using testkit::tokenizer_document;
using testkit::tokenizer_with;

std::string refusal(const json& document) {
  return message_of<DataError>([&] { parse_tokenizer(document); });
}

std::string refusal_with(const json& keys) {
  return refusal(tokenizer_with("llama3", keys));
}

json split(const std::string& pattern) {
  return {{"pre_tokenizer",
           {{"type", "Split"},
            {"pattern", {{"Regex", pattern}}},
            {"behavior", "Isolated"},
            {"invert", false}}}};
}

// A list with one merge.
json pairs(const std::string& left, const std::string& right) {
  return json::array({json::array({left, right})});
}

TEST(Tokenizer, RefusesWhatItDoesNotSupportByName) {
  EXPECT_EQ(refusal_with({{"normalizer", {{"type", "Lowercase"}}}}),
            "t.json: normalizer.type is \"Lowercase\"; expected a supported normalizer: NFC, NFD, "
            "NFKC, NFKD, Prepend, Replace or Sequence");
  EXPECT_EQ(
      refusal_with({{"pre_tokenizer", {{"type", "BertPreTokenizer"}}}}),
      "t.json: pre_tokenizer.type is \"BertPreTokenizer\"; expected a supported pre-tokenizer: "
      "ByteLevel, Digits, Metaspace, Split or Sequence");
  EXPECT_EQ(refusal_with({{"decoder", {{"type", "WordPiece"}}}}).substr(0, 40),
            "t.json: decoder.type is \"WordPiece\"; exp");
  EXPECT_EQ(refusal_with({{"post_processor", {{"type", "BertProcessing"}}}}).substr(0, 50),
            "t.json: post_processor.type is \"BertProcessing\"; e");
  EXPECT_EQ(refusal_with({{"model", {{"type", "Unigram"}}}}),
            "t.json: model.type is \"Unigram\"; expected \"BPE\"");
  EXPECT_EQ(refusal_with({{"model", {{"dropout", 0.1}}}}),
            "t.json: model.dropout is 0.1; expected no dropout: encoding must not be random");
  EXPECT_EQ(refusal_with({{"model", {{"end_of_word_suffix", "</w>"}}}}),
            "t.json: model.end_of_word_suffix is \"</w>\"; expected null or \"\"");
  EXPECT_EQ(refusal_with({{"truncation", {{"max_length", 8}}}}),
            "t.json: truncation is an object; expected null: texts are neither cut nor padded");
}

TEST(Tokenizer, RefusesVocabulariesThatContradictThemselves) {
  EXPECT_EQ(refusal_with({{"model", {{"merges", pairs("q", "zzz")}}}}),
            "t.json: model.merges[0] is a list; expected tokens of the vocabulary; 'zzz' is none");
  EXPECT_EQ(refusal_with({{"model", {{"merges", {"q z y"}}}}}),
            "t.json: model.merges[0] is \"q z y\"; expected two tokens with a space between them");
  EXPECT_EQ(refusal_with({{"model", {{"merges", pairs("q", "Q")}}}}),
            "t.json: model.merges[0] is a list; expected tokens of the vocabulary; 'qQ' is none");
  json document = tokenizer_document("llama3");
  document["model"]["vocab"]["q"] = -1;
  EXPECT_EQ(refusal(document),
            "t.json: model.vocab.q is -1; expected a whole number from 0 to 2147483647");
  document["model"]["vocab"]["q"] = 5'000'000'000;
  EXPECT_EQ(refusal(document),
            "t.json: model.vocab.q is 5000000000; expected a whole number from 0 to 2147483647");
  document["model"]["vocab"]["q"] = 0;
  EXPECT_EQ(refusal(document), "t.json: model.vocab.q is 0; expected an id of its own: '!' has it");
  // A merge with nothing would be a way back to where it began.
  document = tokenizer_document("llama3");
  document["model"]["vocab"][""] = 700;
  document["model"]["merges"] = pairs("", "q");
  EXPECT_EQ(refusal(document),
            "t.json: model.merges[0] is a list; expected two tokens that are not empty");
}

TEST(Tokenizer, RefusesAddedTokensWithOtherIds) {
  json document = tokenizer_document("llama3");
  document["added_tokens"][1]["id"] = 700;
  EXPECT_EQ(refusal(document),
            "t.json: added_tokens[1].id is 700; expected 659, the id that the vocabulary gives it");
  document = tokenizer_document("llama3");
  document["post_processor"]["processors"][1]["special_tokens"]["<|bos|>"]["ids"] = {9999};
  EXPECT_EQ(refusal(document), "t.json: post_processor adds id 9999, which no token has");
}

TEST(Tokenizer, RefusesExpressionsThatMeanSomethingElse) {
  const auto words = [](const std::string& pattern) {
    const std::string message = refusal_with(split(pattern));
    const size_t at = message.find("this has ");
    return at == std::string::npos ? message : message.substr(at + 9);
  };
  EXPECT_EQ(words("^a"), "an anchor at offset 0");
  EXPECT_EQ(words("a\\b"), "the escape '\\b' at offset 1");
  EXPECT_EQ(words("(a)\\1"), "the escape '\\1' at offset 3");
  EXPECT_EQ(words("(?<name>a)"), "a group of another kind at offset 0");
  EXPECT_EQ(words("(?x: a)"), "a group of another kind at offset 0");
  EXPECT_EQ(words("[a[b]]"), "a class within a class at offset 2");
  EXPECT_EQ(words("[a&&b]"), "a class within a class at offset 2");
  EXPECT_EQ(words("[\\P{L}]"), "the opposite of a class within a class at offset 6");
  EXPECT_EQ(words("\\p{Han}"), "the property 'Han' at offset 0");
  EXPECT_EQ(words("a{1,2}+"), "a repetition with a suffix at offset 6");
  EXPECT_EQ(words("[\\s-\\x{4000}]"), "a hyphen that is not a range at offset 3");
  EXPECT_NE(words("a)").find("PCRE2 refuses the expression"), std::string::npos);
}

TEST(Tokenizer, AnExpressionThatNeverEndsIsAnError) {
  json document = tokenizer_with("llama3", split("(a+)+[bd]"));
  const std::string message = message_of<DataError>(
      [&] { (void)parse_tokenizer(document).encode(std::string(100, 'a') + "c"); });
  EXPECT_NE(message.find("t.json: pre_tokenizer: the expression takes too long"), std::string::npos)
      << message;
}

json replace(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

// Each of 40 steps doubles the text: one letter would be a terabyte.
TEST(Tokenizer, AChainOfReplacementsDoesNotFillTheMemory) {
  const json chain(40, replace("a", "aa"));
  const json normalizer{{"type", "Sequence"}, {"normalizers", chain}};
  const std::string message = message_of<DataError>([&] {
    (void)parse_tokenizer(tokenizer_with("llama3", {{"normalizer", normalizer}})).encode("a");
  });
  EXPECT_EQ(message,
            "t.json: normalizer.normalizers[12]: replacing makes a text of more than 4160 bytes; "
            "is the file meant to fill the memory?");
  const json decoder{{"type", "Sequence"}, {"decoders", chain}};
  const Tokenizer tokenizer = parse_tokenizer(tokenizer_with("llama3", {{"decoder", decoder}}));
  EXPECT_THROW((void)tokenizer.decode(tokenizer.encode("a")), DataError);
  const json content(1, replace("a", std::string(1'000'000, 'a')));
  const json at_once{{"type", "Sequence"}, {"normalizers", content}};
  EXPECT_THROW((void)parse_tokenizer(tokenizer_with("llama3", {{"normalizer", at_once}}))
                   .encode(std::string(1'000'000, 'a')),
               DataError);
}

// A token of white space that takes all white space around it along.
TEST(Tokenizer, TokensThatStripTakeLinearTime) {
  json document = tokenizer_document("llama3");
  json token = document["added_tokens"][2];
  token.update({{"id", 661}, {"content", " "}, {"lstrip", true}, {"rstrip", true}});
  document["added_tokens"].push_back(token);
  const Tokenizer tokenizer = parse_tokenizer(document);
  const std::string spaces(300'000, ' ');
  EXPECT_EQ(tokenizer.encode("a" + spaces + "b", {.add_special = false}).size(), 300'002U);
}

TEST(DecodeStream, ALongTextTakesLinearTime) {
  const Tokenizer tokenizer = parse_tokenizer(tokenizer_document("llama2"));
  std::string text;
  for (int i = 0; i < 3'000; ++i) text += " the rank \xF0\x9F\x99\x82";
  DecodeStream stream(tokenizer);
  std::string streamed;
  for (const int64_t id : tokenizer.encode(text)) streamed += stream.push(id);
  EXPECT_EQ(" " + streamed + stream.finish(), text);
}

TEST(Tokenizer, RefusesBrokenFiles) {
  const auto refused = [](const std::string& text) {
    return message_of<DataError>([&] { Tokenizer::parse(text, "t.json"); });
  };
  EXPECT_NE(refused("").find("broken JSON"), std::string::npos);
  EXPECT_NE(refused(R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})").find("twice"),
            std::string::npos);
  EXPECT_NE(refused("{\"model\": {\"vocab\": {\"\xff\": 0}}}").find("broken JSON"),
            std::string::npos);
  const std::string deep(100'000, '[');
  EXPECT_NE(refused("{\"model\": " + deep), "");
  EXPECT_EQ(refused(R"({"model": {"vocab": {"a": 0}, "merges": "a b"}})"),
            "t.json: model.merges is \"a b\"; expected a list");
  EXPECT_EQ(refused(R"({"model": {"vocab": {"a": 1e3}, "merges": []}})"),
            "t.json: model.vocab.a is 1000.0; expected a whole number from 0 to 2147483647");
}

TEST(Tokenizer, LongRunsTakeLinearTime) {
  const std::string spaces = std::string(200'000, ' ') + "x";
  const std::string letters(100'000, 'a');
  for (const char* const name : {"llama3", "qwen", "llama2"}) {
    const Tokenizer tokenizer = parse_tokenizer(tokenizer_document(name));
    for (const std::string& text : {spaces, letters}) {
      const std::string decoded = tokenizer.decode(tokenizer.encode(text));
      EXPECT_TRUE(decoded == text || " " + decoded == text) << name;
    }
  }
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = parse_tokenizer(tokenizer_document("llama3"));
  EXPECT_EQ(message_of<DataError>([&] {
              (void)tokenizer.encode(
                  "ab\xff"
                  "c");
            }),
            "t.json: the text is not UTF-8 at byte 2 of 4; convert it first");
  for (const char* const bad :
       {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"}) {
    EXPECT_THROW((void)tokenizer.encode(bad), DataError);
  }
}

TEST(Tokenizer, AnIdWithoutATokenIsAReplacement) {
  const Tokenizer tokenizer = parse_tokenizer(tokenizer_document("llama3"));
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{64, 100'000, -1, INT64_MAX, 65}),
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
}

TEST(DecodeStream, ShowsCharactersWhenTheyAreWhole) {
  DecodeStream stream(parse_tokenizer(tokenizer_document("llama3")));
  EXPECT_EQ(stream.push(64), "a");
  EXPECT_EQ(stream.push(172), "");  // The four bytes of a face.
  EXPECT_EQ(stream.push(253), "");
  EXPECT_EQ(stream.push(247), "");
  EXPECT_EQ(stream.push(224), "\xF0\x9F\x99\x82");
  EXPECT_EQ(stream.push(172), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

// Decoders of this kind take a space from the begin of a text.
TEST(DecodeStream, GoesOnBehindAPrompt) {
  for (const char* const kind : {"llama2", "llama3"}) {
    const Tokenizer tokenizer = parse_tokenizer(tokenizer_document(kind));
    const std::vector<int64_t> whole = tokenizer.encode("The grid of ranks");
    const std::span<const int64_t> ids(whole);
    for (size_t prompt = 0; prompt <= ids.size(); ++prompt) {
      DecodeStream stream(tokenizer, {}, ids.first(prompt));
      std::string text = tokenizer.decode(ids.first(prompt));
      for (const int64_t id : ids.subspan(prompt)) text += stream.push(id);
      EXPECT_EQ(text + stream.finish(), "The grid of ranks") << kind << " " << prompt;
    }
  }
}

TEST(Tokenizer, IsComparedWithTheModelsVocabulary) {
  const testkit::TemporaryFolder folder;
  folder.file("tokenizer.json", tokenizer_document("llama3").dump());
  const Tokenizer tokenizer = Tokenizer::read(folder.path());
  EXPECT_EQ(tokenizer.vocab_size(), 661);
  folder.file("config.json", R"({"vocab_size": 700, "eos_token_id": [659, 660]})");
  const ModelTokens tokens = read_model_tokens(folder.path(), tokenizer);
  EXPECT_EQ(tokens.vocab_size, 700);
  EXPECT_EQ(tokens.ends, (std::vector<int64_t>{659, 660}));
  folder.file("config.json", R"({"vocab_size": 600})");
  EXPECT_EQ(
      message_of<DataError>([&] { read_model_tokens(folder.path(), tokenizer); }),
      folder.path("tokenizer.json") +
          " has ids up to 660, outside the model's vocabulary of 600; is it another model's?");
  folder.file("config.json", "{}");
  folder.file("tokenizer_config.json", R"({"eos_token": {"content": "<|eot|>"}})");
  EXPECT_EQ(read_model_tokens(folder.path(), tokenizer).ends, (std::vector<int64_t>{659}));
  folder.file("generation_config.json", R"({"eos_token_id": 3})");
  EXPECT_EQ(read_model_tokens(folder.path(), tokenizer).ends, (std::vector<int64_t>{3}));
  folder.file("generation_config.json", "{}");
  folder.file("tokenizer_config.json", R"({"eos_token": "<|none|>"})");
  EXPECT_THROW(read_model_tokens(folder.path(), tokenizer), DataError);
}

}  // namespace
}  // namespace tessera
