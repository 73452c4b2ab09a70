// `tessera train` as users run it: what it computes, shows and keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "tessera/base/text.h"
#include "tests/e2e/train_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

TEST_F(Train, HasTheLossesOfPyTorch) {
  for (const auto& [model, expected] : peer()["losses"].items()) {
    fs::remove_all(run_);
    const Finished result = tessera(fixed("", model));
    ASSERT_EQ(result.code, 0) << result.err;
    ASSERT_EQ(losses().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(losses()[i], expected[i].get<double>(), 1e-4) << model << ", step " << i;
    }
  }
}

TEST_F(Train, HasTheSameLossesOnSeveralRanks) {
  for (const auto& [model, expected] : peer()["losses"].items()) {
    for (const std::string way : {"--dp 2 --parallel.nproc=2", "--pp 2 --parallel.nproc=2",
                                  "--dp 2 --pp 2 --parallel.nproc=4 --microbatches 2"}) {
      fs::remove_all(run_);
      const Finished result = tessera(fixed(way, model));
      ASSERT_EQ(result.code, 0) << way << "\n" << result.err;
      ASSERT_EQ(losses().size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(losses()[i], expected[i].get<double>(), 1e-4) << way << ", " << model << i;
      }
    }
  }
}

TEST_F(Train, WritesTheFieldsOfTheFixedInterface) {
  ASSERT_EQ(tessera(fixed()).code, 0);
  const auto all = steps();
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : all[i].items()) {
      if (i > 0 || key != "held_bytes") keys.push_back(key);
    }
    EXPECT_EQ(keys, (std::vector<std::string>{"grad_norm", "loss", "lr", "mem_bytes", "ms", "step",
                                              "tokens_per_s"}));
    EXPECT_EQ(all[i]["step"], i);
    EXPECT_EQ(all[i]["lr"], peer()["lr"]);
  }
  EXPECT_FALSE(fs::exists(run_ + "/model"));  // Nobody asked for it.
}

TEST_F(Train, SaysWhatTheMemoryHolds) {
  ASSERT_EQ(tessera(fixed("--train.dtype=bf16")).code, 0);
  const int64_t parameters = 19104;  // Of the model.
  const json held = steps().front()["held_bytes"];
  EXPECT_EQ(held["parameters"], 2 * parameters);
  EXPECT_EQ(held["gradients"], 2 * parameters);
  const int64_t states = held["optimizer"];
  EXPECT_GE(states, 12 * parameters);  // Two means and a copy in float32, and counters.
  EXPECT_LT(states, 13 * parameters);
  const std::string report = text_of(run_ + "/report.html");
  EXPECT_NE(report.find("Memory of rank 0"), std::string::npos);
  const char* const rest =
      is_on_gpu() ? "activations and buffers: " : "activations and the program: ";
  for (const char* const line : {"parameters: ", "gradients: ", "optimizer: ", rest, "peak: "}) {
    EXPECT_NE(report.find(line), std::string::npos) << line;
  }
}

// Once a step kept small values of its own, between which freed large ones could not be used again:
// 18 KiB per step.
TEST_F(Train, MemoryDoesNotGrowWithTheSteps) {
  ASSERT_EQ(losses_of("--dp 2 --seq 64 --batch 4 --steps 300").size(), 300U);
  const int64_t early = steps()[100]["mem_bytes"];
  EXPECT_LT(steps().back()["mem_bytes"], early + (int64_t{3} << 19));
}

TEST_F(Train, Float8ComesNearInEveryLayout) {
  const auto run = [&](const std::string& more) {
    return losses_of(
        "--model.hidden_size=64 --model.intermediate_size=128 --model.num_hidden_layers=4 "
        "--seq 64 --batch 8 --steps 10 --dtype bf16 " +
        more);
  };
  const std::vector<double> plain = run("--nproc 1");
  for (const char* const layout :
       {"--nproc 1 --fp8 rowwise", "--nproc 1 --fp8 tensorwise --train.fp8_head=true",
        "--nproc 1 --fp8 rowwise --recompute selective", "--tp 2 --fp8 rowwise",
        "--tp 2 --tp-async --fp8 rowwise", "--dp 2 --dp-type fsdp --fp8 rowwise",
        "--pp 2 --schedule zbv --microbatches 4 --fp8 rowwise"}) {
    const std::vector<double> got = run(layout);
    ASSERT_EQ(got.size(), plain.size());
    EXPECT_NE(got, plain) << layout;
    // Weights have the same initial values, and losses differ by the rounding of their products:
    // 4 % in each, which has other signs in each of hundreds of tokens.
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], plain[i], 0.01 * plain[i]) << layout << ", step " << i;
    }
  }
  EXPECT_EQ(run("--nproc 1 --fp8 rowwise --train.fp8_skip_first=1 --train.fp8_skip_last=3"), plain);
}

// One process would have 300 MiB of logits and makes them in pieces; each of two has them whole.
TEST_F(Train, LogitsInPiecesGiveTheSameLosses) {
  const auto run = [&](const std::string& ranks) {
    return losses_of(
        "--model.vocab_size=131072 --model.hidden_size=16 --model.intermediate_size=16 "
        "--model.num_hidden_layers=2 --seq 76 --batch 8 --steps 2 --optim.warmup=0 " +
        ranks);
  };
  const std::vector<double> pieces = run("--nproc 1");
  for (const char* const ranks : {"--dp 2", "--tp 2"}) {
    const std::vector<double> got = run(ranks);
    ASSERT_EQ(got.size(), pieces.size());
    // Sums of float32 in another order.
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], pieces[i], 1e-4) << ranks;
  }
}

// On a GPU with --deterministic, on a CPU always.
TEST_F(Train, TheSameRunTwiceGivesTheSameBits) {
  const auto outcome = [&] {
    const Finished result = tessera(fixed(concat("--overwrite --run.save=true --train.threads=2",
                                                 is_on_gpu() ? " --deterministic" : "")));
    EXPECT_EQ(result.code, 0) << result.err;
    return std::pair(losses(), content_of(run_ + "/model"));
  };
  EXPECT_EQ(outcome(), outcome());
}

TEST_F(Train, OtherDtypesComeNear) {
  for (const auto& [dtype, tolerance] : {std::pair{"fp64", 1e-4}, std::pair{"bf16", 0.05}}) {
    ASSERT_EQ(tessera(fixed(concat("--overwrite --train.dtype=", dtype))).code, 0);
    for (size_t i = 0; i < losses().size(); ++i) {
      const double expected = peer()["losses"]["untied"][i];
      EXPECT_NEAR(losses()[i], expected, tolerance * expected) << dtype << ", step " << i;
    }
  }
}

TEST_F(Train, WithoutFlagsLearnsFromTheProjectItself) {
  const Finished result = tessera(" train --train.steps=3 --run-dir " + run_);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(steps().size(), 3U);
  EXPECT_TRUE(steps().back().contains("validation_loss"));
  for (const char* name : {"config.toml", "report.html", "model/config.json"}) {
    EXPECT_TRUE(fs::exists(fs::path(run_) / name)) << name;
  }
  EXPECT_NE(result.out.find("validation"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("tessera export " + run_), std::string::npos) << result.out;
}

TEST_F(Train, SaysOneLineASecondToAPipe) {
  const auto start = std::chrono::steady_clock::now();
  const Finished result = tessera(fixed("--train.steps=300"));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(result.code, 0) << result.err;
  const auto lines = std::ranges::count(result.err, '\n');
  EXPECT_LE(static_cast<double>(lines), taken.count() + 4)
      << result.err;  // Two of heading, first, last.
  EXPECT_NE(result.err.find("300/300"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
}

TEST_F(Train, ItsPrintedConfigGivesTheSameRun) {
  const Finished printed = tessera(fixed("--print-config"));
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_FALSE(fs::exists(run_));
  const std::string file = folder_.file("run.toml", printed.out);
  EXPECT_EQ(tessera(" train --print-config --config " + file).out, printed.out);
  ASSERT_EQ(tessera(" train --config " + file).code, 0);
  EXPECT_EQ(text_of(run_ + "/config.toml"), printed.out);
}

TEST_F(Train, CommandsThatItShowsCanBeCopied) {
  const std::string dir = folder_.path("my run");
  const Finished result = tessera(fixed(concat("--run.save=true --run.dir='", dir, "'")));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find(concat("tessera export '", dir, "' '", dir, "/export'")),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find(concat("--model '", dir, "/model' ")), std::string::npos);
  EXPECT_NE(text_of(dir + "/report.html").find("'--run.dir=" + dir + "'"), std::string::npos);
}

}  // namespace
}  // namespace tessera
