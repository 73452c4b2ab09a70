#include "tessera/text/token_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/format/token_file.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"
#include "tests/testkit/tokenizers.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::message_of;
using testkit::TemporaryFolder;

class TokenCaches : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  TokenCache cache_{
      .folder = folder_.path("tokens"), .tokenizer = folder_.path("model"), .vocab_size = 661};

  void SetUp() override {
    fs::create_directory(folder_.path("model"));
    folder_.file("model/tokenizer.json", testkit::tokenizer_document("llama3").dump());
    folder_.file("model/config.json", R"({"vocab_size": 661, "eos_token_id": 659})");
  }
  static std::vector<int64_t> tokens_of(const std::string& path) {
    const TokenFile file(path, path.ends_with(".u32") ? DType::kU32 : DType::kU16);
    std::vector<int64_t> ids(static_cast<size_t>(file.size()));
    file.read(0, ids);
    return ids;
  }
};

TEST_F(TokenCaches, EncodesOnceAsTokenizeDoes) {
  const std::string text = folder_.file("a.txt", "The rank reads the grid.\n");
  ASSERT_TRUE(cache_.make(text, 2).has_value());
  EXPECT_FALSE(cache_.make(text, 2).has_value());
  const std::string output = folder_.path("t.bin");
  tokenize_files(Tokenizer::read(cache_.tokenizer),
                 {.inputs = {text}, .output = output, .end = 659});
  EXPECT_EQ(tokens_of(cache_.path_of(text)), tokens_of(output));
  EXPECT_EQ(cache_.document_end(), 659);
}

TEST_F(TokenCaches, LargeVocabulariesAreU32) {
  const std::string text = folder_.file("a.txt", "grid");
  cache_.make(text, 1);
  TokenCache large = cache_;
  large.vocab_size = 65'537;
  large.make(text, 1);
  EXPECT_TRUE(large.path_of(text).ends_with(".u32"));
  EXPECT_EQ(tokens_of(large.path_of(text)), tokens_of(cache_.path_of(text)));
}

TEST_F(TokenCaches, ChangesGiveAnotherFile) {
  const std::string text = folder_.file("a.txt", "grid");
  const std::string before = cache_.path_of(text);
  EXPECT_EQ(cache_.path_of(folder_.path("model") + "/../a.txt"), before);
  fs::last_write_time(text, fs::last_write_time(text) + std::chrono::seconds(1));
  const std::string later = cache_.path_of(text);
  EXPECT_NE(later, before);
  folder_.file("model/tokenizer_config.json", "{}");
  EXPECT_NE(cache_.path_of(text), later);
}

TEST_F(TokenCaches, GoesOnWhereItStopped) {
  std::string long_text;
  while (long_text.size() < 3'000'000) long_text += "The rank reads the checkpoint, ";
  const std::string text = folder_.file("a.txt", long_text);
  struct Stop {};
  EXPECT_THROW(cache_.make(text, 1, {.show = [](const TokenizeProgress&) { throw Stop{}; }}), Stop);
  EXPECT_FALSE(fs::exists(cache_.path_of(text)));
  EXPECT_TRUE(fs::exists(cache_.path_of(text) + ".part"));
  ASSERT_TRUE(cache_.make(text, 1).has_value());
  std::vector<int64_t> expected = Tokenizer::read(cache_.tokenizer).encode(long_text);
  expected.push_back(659);
  EXPECT_EQ(tokens_of(cache_.path_of(text)), expected);
}

TEST_F(TokenCaches, RefusesWhatIsNoText) {
  const auto words_of = [&](const std::string& name, const std::string& content) {
    const std::string path = folder_.file(name, content);
    return message_of<DataError>([&] { cache_.make(path, 1); });
  };
  EXPECT_NE(words_of("a.txt", "gr\xff").find("a.txt"), std::string::npos);
  EXPECT_NE(
      words_of("b.txt", std::string("\x01\0\x02\0", 4)).find("byte 1 is 0, so this is not text"),
      std::string::npos);
  EXPECT_EQ(fs::exists(cache_.path_of(folder_.path("a.txt"))), false);
}

TEST_F(TokenCaches, RefusesTokenizersThatDoNotFit) {
  const std::string text = folder_.file("a.txt", "grid");
  cache_.vocab_size = 600;
  EXPECT_NE(message_of<DataError>([&] { cache_.make(text, 1); }).find("vocabulary of 600"),
            std::string::npos);
  cache_.vocab_size = 661;
  folder_.file("model/config.json", "{}");
  EXPECT_NE(message_of<ConfigError>([&] { cache_.make(text, 1); }).find("token that ends a text"),
            std::string::npos);
  folder_.file("model/generation_config.json", R"({"eos_token_id": [658, 659]})");
  EXPECT_TRUE(cache_.make(text, 1).has_value());
  EXPECT_EQ(tokens_of(cache_.path_of(text)).back(), 658);
}

}  // namespace
}  // namespace tessera
