// Input that `tessera train` refuses, and what it says.
#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/base/text.h"
#include "tests/e2e/train_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

TEST_F(Train, RefusesFilesThatAreMissingOrForeign) {
  const std::string here = folder_.path() + "/";
  const auto with_model = [&](const std::string& model) {
    return concat(" train --model ", model, " --data ", tokens_, " --batch 2 --seq 8 --run-dir ",
                  run_);
  };
  expect_refused(with_model(here + "none"), 1, here + "none/config.json");
  fs::create_directory(folder_.path("empty"));
  expect_refused(with_model(here + "empty"), 1, here + "empty/config.json");
  fs::create_directory(folder_.path("bert"));
  folder_.file("bert/config.json", R"({"model_type":"bert"})");
  expect_refused(with_model(here + "bert"), 1, "bert");
  expect_refused(fixed("--data.paths=" + here + "none.bin"), 1, here + "none.bin");
  expect_refused(fixed("--data.paths=" + folder_.file("odd.bin", "abc")), 1, "odd.bin");
  expect_refused(" train --run-dir " + run_ + " --config " + here + "none.toml", 1, "none.toml");
}

TEST_F(Train, RefusesWeightsThatDoNotFitTheConfig) {
  fs::copy(kModels + "untied", folder_.path("model"));
  const auto refused = [&](const std::string& key, const json& value, const std::string& words) {
    json config = json::parse(text_of(kModels + "untied/config.json"));
    config[key] = value;
    folder_.file("model/config.json", config.dump());
    expect_refused(concat(" train --model ", folder_.path("model"), " --data ", tokens_,
                          " --batch 2 --seq 8 --run-dir ", run_),
                   1, words);
  };
  refused("intermediate_size", 41, "the config needs [41, 32]");
  refused("num_hidden_layers", 3, "model.layers.2");
  refused("num_hidden_layers", 1, "model.layers.1");
  refused("tie_word_embeddings", "yes", "tie_word_embeddings");
}

TEST_F(Train, RefusesTokensBeyondTheVocabulary) {
  std::vector<int> tokens = peer()["tokens"];
  tokens[700] = 48;
  const std::string file = folder_.file("wide.bin", as_u16(tokens));
  const std::string data = fixed("--data.paths=" + file);
  expect_refused(data, 1, "wide.bin");
  const Finished result = tessera(data);
  EXPECT_NE(result.err.find("48"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("700"), std::string::npos) << result.err;
}

TEST_F(Train, RefusesDataThatIsShorterThanASampleOrABatch) {
  expect_refused(fixed("--data.seq=1000"), 2, "1000");
  expect_refused(fixed("--data.paths=" + folder_.file("short.bin", as_u16({1, 2, 3}))), 2, "short");
}

TEST_F(Train, RefusesFlagsThatContradictEachOther) {
  expect_refused(fixed("--overwrite --resume"), 2, "resume");
  expect_refused(fixed("--optim.clip=1"), 2, "clip");
  expect_refused(fixed("--model.hidden_size=64"), 2, "hidden_size");
  expect_refused(fixed("--parallel.nproc=3 --parallel.pp=2"), 2, "--nproc is 3");
  expect_refused(fixed("--schedule gpipe"), 2, "--pp");
  expect_refused(fixed("--parallel.ep=2 --dp 2 --parallel.nproc=2"), 2, "the model has none");
  expect_refused(fixed("--dp 8 --parallel.nproc=8"), 2, "too small");
  expect_refused(fixed("--pp 2 --parallel.nproc=2 --schedule gpip"), 2, "did you mean 'gpipe'");
  expect_refused(fixed("--pp 3 --parallel.nproc=3 --microbatches 4"), 2, "too few for 3 stages");
  expect_refused(fixed("--optim.warmup=21"), 2, "warm");
  expect_refused(fixed("--data.batch=0"), 2, "batch");
  expect_refused(fixed("--train.dtype=fp8"), 2, "fp8");
  expect_refused(fixed("--cuda-graphs --train.device=cpu"), 2, "--device cuda");
  expect_refused(fixed("--optim.accumulate=5"), 2, "5");
  expect_refused(fixed("--optim.leer=5"), 2, "did you mean");
  expect_refused(fixed("--stepps 5"), 2, "--steps");
}

// One line, before ranks start: a report of the failed job would hide it.
TEST_F(Train, RefusesAGpuThatIsNotThere) {
  const std::string hidden = concat("CUDA_VISIBLE_DEVICES= ", TESSERA_PROGRAM);
  const auto refused = [&](const std::string& arguments) {
    const Finished result = testkit::run(concat(hidden, arguments));
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(result.err,
              "tessera: device 'cuda' is not available in this build or on this machine; use cpu\n")
        << arguments;
    EXPECT_FALSE(fs::exists(run_)) << arguments;
  };
  refused(" train --device cuda --run-dir " + run_);
  refused(" train --device cuda --nproc 1 --run-dir " + run_);
  refused(concat(" eval --device cuda --nproc 2 --model ", kModels, "untied --data ", tokens_));
  refused(concat(" generate --device cuda --prompt-ids 1 --model ", kModels, "untied"));
}

}  // namespace
}  // namespace tessera
