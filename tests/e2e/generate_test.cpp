// What `tessera generate` refuses, and what it says.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

#if defined(TESSERA_HAS_TORCH) && defined(TESSERA_HAS_TEXT)
namespace tessera {
namespace {

using testkit::Finished;

class GenerateVerb : public testing::Test {
 protected:
  const testkit::TemporaryFolder folder_;

  void SetUp() override {
    std::filesystem::copy(TESSERA_GOLDEN_DIR "/llama/untied", folder_.path("model"));
    // A tokenizer of bytes that fits the model's vocabulary of 48.
    folder_.file("model/tokenizer.json", R"({
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}})");
  }
  void expect_refused(const std::string& flags, int code, const std::string& words) const {
    const Finished done = testkit::run("cd " + folder_.path() +
                                       " && " TESSERA_PROGRAM " generate --threads 1 " + flags);
    EXPECT_EQ(done.code, code) << flags;
    EXPECT_NE(done.err.find(words), std::string::npos) << flags << "\n" << done.err;
    EXPECT_EQ(done.out, "") << flags;
  }
};

TEST_F(GenerateVerb, RefusesPromptsThatTheModelCannotRead) {
  expect_refused("--model model --prompt-ids 1,2 --tokens 127", 2,
                 "prompt 0 has 2 tokens, which with 127 new ones exceed the model's 128 positions");
  expect_refused("--model model --prompt-ids 1 --prompt-ids 47,48 --tokens 4", 2,
                 "prompt 1 has the token 48, but the model's vocabulary has 48");
  expect_refused("--model model --prompt-ids 1,-1", 2, "prompt 0 has the token -1");
  expect_refused("--model model --prompt-ids 1,x", 2, "--prompt-ids 1,x is not a list of tokens");
  expect_refused("--model model --prompt-ids 99999999999999999999", 2, "is not a list of tokens");
  expect_refused("--model model --prompt ''", 2, "prompt 0 has no tokens");
  expect_refused("--model model --prompt \"$(printf 'a\\377b')\"", 1,
                 "the text is not UTF-8 at byte 1 of 3");
}

// Not taken for a list.
TEST_F(GenerateVerb, PromptsMayBeInBrackets) {
  folder_.file("model/tokenizer.json", R"({
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"a": 1, "[": 2, "]": 3, ",": 4}, "merges": []}})");
  const Finished done = testkit::run("cd " + folder_.path() +
                                     " && " TESSERA_PROGRAM
                                     " generate --threads 1 --model model "
                                     "--prompt '[a,a]' --tokens 1 --greedy");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(done.out.starts_with("[a,a]")) << done.out;
}

TEST_F(GenerateVerb, RefusesATokenizerOfAnotherModel) {
  const auto table = nlohmann::json::parse(std::ifstream(TESSERA_GOLDEN_DIR "/tokenizer.json"));
  std::filesystem::create_directory(folder_.path("other"));
  folder_.file("other/tokenizer.json", table["tokenizers"]["llama3"].dump());
  expect_refused("--model model --prompt a --tokenizer other", 1,
                 "has ids up to 660, outside the model's vocabulary of 48");
  folder_.file("other/tokenizer.json", R"({"model": {"type": "WordPiece", "vocab": {}}})");
  expect_refused("--model model --prompt a --tokenizer other", 1,
                 "model.type is \"WordPiece\"; expected \"BPE\"");
  std::filesystem::remove(folder_.path("model/tokenizer.json"));
  expect_refused("--model model --prompt a", 1, "tokenizer");
}

TEST_F(GenerateVerb, RefusesOptionsThatNoDistributionHas) {
  expect_refused("--prompt-ids 1", 2, "a model is required");
  expect_refused("--model model", 2, "a prompt is required");
  expect_refused("--model none --prompt-ids 1", 1, "none");
  expect_refused("--model model --prompt-ids 1 --tokens 0", 2, "the number of new tokens is 0");
  expect_refused("--model model --prompt-ids 1 --temperature -1", 2, "a temperature of -1");
  expect_refused("--model model --prompt-ids 1 --top-p 0", 2, "top_p is 0");
  expect_refused("--model model --prompt-ids 1 --top-k -1", 2, "top_k is -1");
  expect_refused("--model model --prompt-ids 1 --tp 0", 2, "--tp is 0");
}

}  // namespace
}  // namespace tessera
#endif
