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
    for (const auto& [key, value] : all[i].items()) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"grad_norm", "loss", "lr", "mem_bytes", "ms", "step",
                                              "tokens_per_s"}));
    EXPECT_EQ(all[i]["step"], i);
    EXPECT_EQ(all[i]["lr"], peer()["lr"]);
  }
  EXPECT_FALSE(fs::exists(run_ + "/model"));  // Nobody asked for it.
}

TEST_F(Train, TheSameRunTwiceGivesTheSameBits) {
  const auto outcome = [&] {
    EXPECT_EQ(tessera(fixed("--overwrite --run.save=true --train.threads=2")).code, 0);
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
  EXPECT_NE(result.out.find(concat("tessera export '", dir, "' DIR")), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find(concat("--model '", dir, "/model' ")), std::string::npos);
  EXPECT_NE(text_of(dir + "/report.html").find("'--run.dir=" + dir + "'"), std::string::npos);
}

}  // namespace
}  // namespace tessera
