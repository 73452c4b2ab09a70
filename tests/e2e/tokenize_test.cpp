// `tessera tokenize` from the command line.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/format/token_file.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::Finished;
using testkit::TemporaryFolder;

#ifdef TESSERA_HAS_TEXT
class TokenizeVerb : public testing::Test {
 protected:
  const TemporaryFolder folder_;

  void SetUp() override {
    const auto table = nlohmann::json::parse(
        std::ifstream(std::filesystem::path(TESSERA_GOLDEN_DIR) / "tokenizer.json"));
    std::filesystem::create_directory(folder_.path("model"));
    folder_.file("model/tokenizer.json", table["tokenizers"]["llama3"].dump());
    folder_.file("model/config.json", R"({"vocab_size": 661, "eos_token_id": 659})");
    folder_.file("a.txt", "grid");
    folder_.file("b.txt", "a");
  }
  Finished tokenize(const std::string& flags) const {
    return testkit::run("cd " + folder_.path() + " && " TESSERA_PROGRAM " tokenize " + flags +
                        " 2>&1");
  }
};

TEST_F(TokenizeVerb, WritesAFileToTrainOn) {
  const Finished done = tokenize("--model model --in a.txt b.txt --out t.bin");
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.out,
            "t.bin: 7 tokens (U16) of 2 documents\n"
            "Train on it: tessera train --model model --data t.bin\n");
  const TokenFile file(folder_.path("t.bin"));
  std::vector<int64_t> ids(static_cast<size_t>(file.size()));
  file.read(0, ids);
  EXPECT_EQ(ids, (std::vector<int64_t>{658, 70, 289, 659, 658, 64, 659}));
}

TEST_F(TokenizeVerb, SaysWhatIsWrong) {
  const auto refused = [&](const std::string& flags, int code, const std::string& words) {
    const Finished done = tokenize(flags);
    EXPECT_EQ(done.code, code) << flags;
    EXPECT_NE(done.out.find(words), std::string::npos) << done.out;
  };
  refused("", 2, "a model, texts and an output are required");
  refused("--model . --in a.txt --out t.bin", 1,
          "has no tokenizer.json; a model without one reads");
  refused("--model model --in a.txt --out t.bin --eos x!", 2, "--eos x! is not a token of model");
  refused("--model model --in none --out t.bin", 1, "none");
  refused("--model model --in a.txt --out t.npy", 2, "only raw numbers are written");
  folder_.file("model/config.json", R"({"vocab_size": 600, "eos_token_id": 1})");
  refused("--model model --in a.txt --out t.bin", 1, "outside the model's vocabulary of 600");
  folder_.file("model/config.json", "{}");
  refused("--model model --in a.txt --out t.bin", 2, "names the token that ends a text");
}
#endif

TEST(TokenizeHelp, ListsItsFlags) {
  const Finished help = testkit::run(TESSERA_PROGRAM " tokenize --help 2>&1");
#ifdef TESSERA_HAS_TEXT
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("--restart"), std::string::npos);
#else
  EXPECT_NE(help.out.find("this build has no tokenizers"), std::string::npos);
#endif
}

}  // namespace
}  // namespace tessera
