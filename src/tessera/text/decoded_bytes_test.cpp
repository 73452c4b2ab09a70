#include "tessera/text/decoded_bytes.h"

#include <gtest/gtest.h>

#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/tokenizers.h"

namespace tessera {
namespace {

std::string u16(const std::vector<int64_t>& ids) {
  std::string bytes;
  for (const int64_t id : ids) {
    bytes += static_cast<char>(id & 255);
    bytes += static_cast<char>(id >> 8);
  }
  return bytes;
}

// Texts with characters of several bytes, longer than what is decoded at a time.
std::string long_text() {
  std::string text = "The rank";
  for (int i = 0; i < 3000; ++i) text += " reads \u00fcber \u4e16 \U0001f642";
  return text;
}

class DecodedBytes : public testing::TestWithParam<const char*> {};

TEST_P(DecodedBytes, AreThoseOfTheTexts) {
  const testkit::TemporaryFolder folder;
  const Tokenizer tokenizer = testkit::parse_tokenizer(testkit::tokenizer_document(GetParam()));
  const int64_t end = 2;  // Any token that the texts do not have.
  std::vector<int64_t> ids{end};
  int64_t bytes = 0;
  for (const std::string& text : {std::string("grid"), long_text(), std::string("a b")}) {
    const std::vector<int64_t> more = tokenizer.encode(text);
    ASSERT_EQ(tokenizer.decode(more), text);
    ids.insert(ids.end(), more.begin(), more.end());
    ids.push_back(end);
    bytes += static_cast<int64_t>(text.size() + tokenizer.decode({{end}}).size());
  }
  const TokenSource source(folder.file("t.bin", u16(ids)));
  EXPECT_EQ(decoded_bytes(tokenizer, source, end), bytes);
}

// Without a space, all tokens of such a text are bytes of one run.
TEST(LongRuns, OfCharactersOutsideTheVocabulary) {
  const testkit::TemporaryFolder folder;
  const Tokenizer tokenizer = testkit::parse_tokenizer(testkit::tokenizer_document("llama2"));
  std::string text = "a";
  for (int i = 0; i < 5000; ++i) text += "\u0f40";
  const std::vector<int64_t> ids = tokenizer.encode(text);
  ASSERT_GT(ids.size(), 15'000U);
  const TokenSource source(folder.file("t.bin", u16(ids)));
  const auto first = static_cast<int64_t>(tokenizer.decode({{ids[0]}}).size());
  EXPECT_EQ(decoded_bytes(tokenizer, source, -1), static_cast<int64_t>(text.size()) - first);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DecodedBytes, testing::Values("llama3", "qwen", "llama2"));

}  // namespace
}  // namespace tessera
