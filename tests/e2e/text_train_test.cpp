// Text in and out: training on texts, the sample at the end of a run, and `tessera eval`.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numbers>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tests/e2e/run_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

std::string sentences(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += concat("The rank number ", i, " reads the grid of the groups.\n");
  }
  return text;
}

/// The end of a run's output after `mark`, up to the end of its line.
std::string line_after(const std::string& output, const std::string& mark) {
  const size_t at = output.find(mark);
  if (at == std::string::npos) return "";
  const size_t begin = at + mark.size();
  return output.substr(begin, output.find('\n', begin) - begin);
}

class TextTrain : public TrainRun {
 protected:
  const std::string text_ = folder_.file("a.txt", sentences(60));
  const std::string shape_ =
      "--model.hidden_size=32 --model.intermediate_size=48 --model.num_hidden_layers=2 "
      "--model.num_attention_heads=4 --model.num_key_value_heads=2 --model.head_dim=8 ";

  /// A small model from initial values.
  std::string train(const std::string& more, const std::string& run) const {
    return concat(" train --steps 3 --batch 4 --seq 8 --threads 1 ", shape_, more, " --run-dir ",
                  run, device_flag());
  }
  std::string train(const std::string& more) const { return train(more, run_); }
  Finished succeeds(const std::string& arguments) const {
    Finished result = tessera(arguments);
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.err;
    return result;
  }
  json eval(const std::string& more) const {
    return json::parse(succeeds(concat(" eval --json --threads 1 --data.cache=",
                                       folder_.path("cache"), " ", more, device_flag()))
                           .out);
  }
  void refused(const std::string& arguments, int code, const std::string& words) const {
    const Finished result = tessera(arguments);
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << arguments << "\n" << result.err;
    EXPECT_FALSE(fs::exists(run_)) << arguments;
  }
};

TEST_F(TextTrain, BytesAreEvaluatedLikeTheTrainersValidation) {
  // The last 5 %: two batches of 4 rows of 8 bytes, and two bytes more.
  const std::string data = sentences(60).substr(0, 1320);
  const std::string held_out = data.substr(1320 - 66, 65);
  const std::string file = folder_.file("b.txt", data);
  succeeds(train(concat("--dp 2 --data ", file)));
  const json last = steps().back();
  ASSERT_TRUE(last.contains("validation_loss"));
  const json found = eval(concat("--model ", run_, " --data ", folder_.file("c.txt", held_out)));
  // Both are float32, summed in another order.
  EXPECT_NEAR(found["loss"], last["validation_loss"], 1e-5);
  EXPECT_EQ(found["tokens"], 64);
  EXPECT_EQ(found["bytes"], 64);
  EXPECT_NEAR(found["perplexity"], std::exp(found["loss"].get<double>()), 1e-9);
  EXPECT_NEAR(found["bits_per_byte"], found["loss"].get<double>() / std::numbers::ln2, 1e-9);
}

TEST_F(TextTrain, EndsWithASample) {
  const Finished result = succeeds(train(concat("--nproc 1 --sample 12 --data ", text_)));
  const std::string command = line_after(result.out, "more: tessera ");
  ASSERT_TRUE(command.ends_with(" --tokens 12 --seed 1")) << result.out;
  // The same command with the sample's seed writes the same.
  const Finished again = succeeds(concat(" ", command.substr(0, command.rfind(" --seed"))));
  const std::string shown = result.out.substr(result.out.find("”:\n") + strlen("”:\n"));
  std::string expected = "  ";
  for (const char c : visible_lines(again.out)) expected += c == '\n' ? "\n  " : std::string(1, c);
  expected.resize(expected.size() - 2);
  EXPECT_EQ(shown.substr(0, expected.size()), expected) << result.out;
}

TEST_F(TextTrain, RunsWithoutTextEndWithoutASample) {
  for (const std::string& more : {concat("--no-sample --data ", text_),
                                  concat("--data.kind=u16 --model.vocab_size=65536 --data ", text_),
                                  concat("--run.save=false --data ", text_)}) {
    fs::remove_all(run_);
    const Finished result = succeeds(train(concat("--nproc 1 ", more)));
    EXPECT_EQ(result.out.find("tessera generate"), std::string::npos) << result.out;
    EXPECT_EQ(result.err.find("warning"), std::string::npos) << result.err;
  }
  fs::remove_all(run_);
  refused(concat(" train --sample 5 --run.save=false --run-dir ", run_), 2,
          "--sample 5 needs the weights");
}

TEST_F(TextTrain, EvalRefusesWhatItCannotDo) {
  const std::string model = concat(" eval --model ", kModels, "untied ");
  refused(" eval --data x", 2, "give --model DIR");
  refused(model, 2, "give --data FILE or FOLDER");
  refused(concat(model, "--data ", folder_.path("none")), 1, "none");
  refused(concat(model, "--data ", text_), 2, "has no tokenizer.json, and its vocabulary of 48");
  refused(concat(model, "--data.kind=bytes --data ", text_), 1, "outside the vocabulary of 48");
  refused(concat(model, "--tp 3 --data.kind=bytes --seq 9 --data ", text_), 2,
          "tp 3 does not fit 4 query heads");
  refused(concat(" eval --model ", folder_.path("none"), " --data ", text_), 1,
          "is neither a Hugging Face folder");
  refused(concat(model, "--data ", folder_.file("one.bin", std::string("\1\0", 2))), 2,
          "fewer than two tokens");
}

#ifdef TESSERA_HAS_TEXT
class TokenizedTrain : public TextTrain {
 protected:
  const std::string tokenizer_ = folder_.path("tokenizer");
  const std::string shaped_ = concat("--model.vocab_size=661 --tokenizer ", tokenizer_, " ");

  void SetUp() override {
    const json table = json::parse(text_of(TESSERA_GOLDEN_DIR "/tokenizer.json"));
    fs::create_directory(tokenizer_);
    folder_.file("tokenizer/tokenizer.json", table["tokenizers"]["llama3"].dump());
    folder_.file("tokenizer/config.json", R"({"eos_token_id": 659})");
  }
  std::string tokens_of(const std::string& text) const {
    const std::string out = folder_.path("t.bin");
    succeeds(concat(" tokenize --model ", tokenizer_, " --in ", text, " --out ", out));
    return out;
  }
  std::vector<std::string> cached() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_.path("tokens"))) {
      files.push_back(entry.path());
    }
    return files;
  }
};

TEST_F(TokenizedTrain, TokensOnTheFlyAreThoseOfTheFile) {
  const Finished first = succeeds(train(concat("--dp 2 --sample 5 --data ", text_, " ", shaped_)));
  EXPECT_NE(first.err.find(concat("encoding ", text_, " by ")), std::string::npos) << first.err;
  EXPECT_EQ(first.err.find("encoding"), first.err.rfind("encoding")) << first.err;  // Not per rank.
  EXPECT_NE(first.out.find("more: tessera generate"), std::string::npos) << first.out;
  const std::string tokens = tokens_of(text_);
  ASSERT_EQ(cached().size(), 1);
  EXPECT_EQ(text_of(cached()[0]), text_of(tokens));
  const std::vector<double> expected = losses();

  const std::string other = folder_.path("other");
  const Finished second = succeeds(train(concat("--dp 2 --data ", text_, " ", shaped_), other));
  EXPECT_EQ(second.err.find("encoding"), std::string::npos) << second.err;
  EXPECT_NE(second.err.find(": tokens in "), std::string::npos) << second.err;
  EXPECT_EQ(text_of(other + "/metrics.jsonl").empty(), false);

  fs::remove_all(run_);
  succeeds(train(concat("--dp 2 --data ", tokens, " ", shaped_)));
  EXPECT_EQ(losses(), expected);
}

TEST_F(TokenizedTrain, TheModelOfARunBringsItsTokenizer) {
  succeeds(train(concat("--nproc 1 --save-every 3 --data ", text_, " ", shaped_)));
  const std::string prompt = " --prompt 'The rank' --greedy --tokens 8 --threads 1 --model ";
  const std::string written = succeeds(concat(" generate", prompt, run_)).out;
  EXPECT_TRUE(written.starts_with("The rank")) << written;
  const std::string exported = folder_.path("exported");
  succeeds(concat(" export ", run_, " ", exported));
  EXPECT_EQ(succeeds(concat(" generate", prompt, exported)).out, written);
  const std::string checkpoint = concat(run_, "/checkpoints/step-00000003");
  EXPECT_EQ(succeeds(concat(" generate", prompt, checkpoint)).out, written);
  // And its end of texts: the next run encodes texts by itself.
  succeeds(concat(" train --steps 1 --batch 2 --seq 8 --threads 1 --model ", exported, " --data ",
                  text_, " --run-dir ", folder_.path("next"), device_flag()));
}

TEST_F(TokenizedTrain, EvalIsTheSameInEveryLayout) {
  const std::string dense = folder_.path("dense");
  const std::string sparse = folder_.path("sparse");
  succeeds(train(concat("--nproc 1 --save-every 3 --data ", text_, " ", shaped_), dense));
  succeeds(train(concat("--nproc 1 --preset tiny-moe --data ", text_, " ", shaped_), sparse));
  const auto same = [&](const std::string& model, const std::vector<std::string>& layouts) {
    const std::string subject = concat("--dtype fp64 --data ", text_, " --model ", model, " ");
    const json alone = eval(subject);
    EXPECT_EQ(alone["bytes"], fs::file_size(text_));
    EXPECT_NEAR(
        alone["bits_per_byte"].get<double>() * std::numbers::ln2 * alone["bytes"].get<double>(),
        alone["loss"].get<double>() * alone["tokens"].get<double>(), 1e-6);
    for (const std::string& layout : layouts) {
      const json found = eval(subject + layout);
      // Sums in float64, in another order.
      EXPECT_NEAR(found["loss"], alone["loss"], 1e-10) << layout;
      EXPECT_EQ(found["tokens"], alone["tokens"]) << layout;
      EXPECT_EQ(found["bytes"], alone["bytes"]) << layout;
    }
    return alone;
  };
  const json all = same(dense, {"--dp 3", "--tp 2", "--pp 2 --batch 5", "--cp 2 --dp 2",
                                "--dp 2 --dp-type fsdp", "--batch 1 --data.seq=8"});
  same(sparse, {"--dp 2 --ep 2"});
  // A checkpoint and token files give the same.
  const std::string tokens = tokens_of(text_);
  const json other = eval(
      concat("--dtype fp64 --data ", tokens, " --model ", dense, "/checkpoints/step-00000003"));
  EXPECT_NEAR(other["loss"], all["loss"], 1e-10);
  EXPECT_EQ(other["bytes"], all["bytes"]);
}

TEST_F(TokenizedTrain, EvalKeepsPackedDocumentsApart) {
  const std::string texts = folder_.path("texts");
  fs::create_directory(texts);
  for (const int i : {10, 20, 30}) folder_.file(concat("texts/", i, ".txt"), sentences(i));
  succeeds(train(concat("--nproc 1 --data ", texts, " ", shaped_)));
  const std::string joined = concat("--dtype fp64 --data ", texts, " --model ", run_, " ");
  const std::string packed = joined + "--data.documents=true --data.document_end=659 ";
  const json alone = eval(packed);
  EXPECT_EQ(alone["tokens"].get<int64_t>(), eval(joined)["tokens"].get<int64_t>() - 2)
      << "nothing predicts the first token of the second and the third document";
  EXPECT_TRUE(alone["bits_per_byte"].is_null());
  for (const char* const layout : {"--cp 2", "--dp 2", "--tp 2"}) {
    // Sums in float64, in another order.
    EXPECT_NEAR(eval(packed + layout)["loss"], alone["loss"], 1e-10) << layout;
  }
}

TEST_F(TokenizedTrain, RefusesBeforeRanksStart) {
  const std::string two = concat("--dp 2 ", shaped_);
  refused(train(concat(two, "--data ", folder_.file("b.txt", "grid \xff\n"))), 1, "b.txt");
  refused(train(concat(two, "--data ", folder_.file("c.dat", std::string("\1\0\2\0", 4)))), 1,
          "byte 1 is 0, so this is not text");
  refused(
      train(concat("--dp 2 --model.vocab_size=600 --data ", text_, " --tokenizer ", tokenizer_)), 1,
      "vocabulary of 600");
  refused(train(concat("--dp 2 --data ", text_, " --tokenizer ", folder_.path("none"))), 2,
          "has no tokenizer.json");
  refused(train(concat(two, "--data.documents=true --data ", text_)), 2,
          "give --data.document_end=659");
  refused(concat(" train --model ", kModels, "untied --run-dir ", run_, " --data ", text_), 2,
          "has no tokenizer.json, and its vocabulary of 48");
  refused(train(concat(two, "--data ", folder_.path())), 2, "which is written to");
  EXPECT_FALSE(fs::exists(folder_.path("tokens")) && !cached().empty() &&
               cached()[0].ends_with(".bin"));
}
#endif

}  // namespace
}  // namespace tessera
