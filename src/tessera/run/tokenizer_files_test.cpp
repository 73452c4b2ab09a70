#include "tessera/run/tokenizer_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/format/end_tokens.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

TEST(TokenizerFiles, CopiesWhatTextNeeds) {
  const testkit::TemporaryFolder folder;
  for (const char* const name : {"from", "bare"}) fs::create_directory(folder.path(name));
  folder.file("from/tokenizer.json", "{}");
  folder.file("from/tokenizer_config.json", "{}");
  folder.file("from/config.json", R"({"eos_token_id": [3, 4]})");
  const std::string to = folder.path("a/to");
  copy_tokenizer(folder.path("from"), to, 8);
  EXPECT_TRUE(has_tokenizer(to));
  EXPECT_TRUE(fs::exists(to + "/tokenizer_config.json"));
  EXPECT_FALSE(fs::exists(to + "/config.json"));  // The shape is that of the new weights.
  EXPECT_EQ(end_tokens(to, 8), (std::vector<int64_t>{3, 4}));
  for (const auto& entry : fs::directory_iterator(to)) {
    EXPECT_TRUE(is_tokenizer_file(entry.path().filename().native())) << entry.path();
  }
  copy_tokenizer(folder.path("bare"), folder.path("none"), 8);
  EXPECT_FALSE(fs::exists(folder.path("none")));
}

TEST(TokenizerFiles, TheFileThatNamesTheEndsIsCopied) {
  const testkit::TemporaryFolder folder;
  fs::create_directory(folder.path("from"));
  folder.file("from/tokenizer.json", "{}");
  folder.file("from/config.json", R"({"eos_token_id": 3})");
  folder.file("from/generation_config.json", R"({"eos_token_id": 5})");
  copy_tokenizer(folder.path("from"), folder.path("to"), 8);
  EXPECT_EQ(end_tokens(folder.path("to"), 8), (std::vector<int64_t>{5}));
}

TEST(TokenizerFiles, TheEndThatOnlyTheTokenizerNamesIsWritten) {
  const testkit::TemporaryFolder folder;
  fs::create_directory(folder.path("from"));
  folder.file("from/tokenizer_config.json", R"({"eos_token": {"content": "</s>"}})");
  folder.file("from/tokenizer.json", R"({"added_tokens": [{"id": 6, "content": "</s>"}]})");
  folder.file("from/chat_template.jinja", "{{ messages }}");
  copy_tokenizer(folder.path("from"), folder.path("to"), 8);
  EXPECT_TRUE(fs::exists(folder.path("to/generation_config.json")));
  EXPECT_TRUE(fs::exists(folder.path("to/chat_template.jinja")));
  EXPECT_EQ(end_tokens(folder.path("to"), 8), (std::vector<int64_t>{6}));
  folder.file("from/tokenizer_config.json", R"({"eos_token": "end"})");
  folder.file("from/tokenizer.json", R"({"model": {"vocab": {"end": 2}}})");
  EXPECT_EQ(end_tokens(folder.path("from"), 8), (std::vector<int64_t>{2}));
  folder.file("from/tokenizer.json", R"({"model": {"vocab": {"other": 2}}})");
  EXPECT_EQ(end_tokens(folder.path("from"), 8), (std::vector<int64_t>{}));
}

}  // namespace
}  // namespace tessera
