// Runs whose numbers go wrong, averages of weights, and traces of steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "tessera/base/text.h"
#include "tests/e2e/train_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

// The rate grows until gradient norms are spikes; on some machines so many in a row that the run
// ends. Shards that are kept gathered must take the weights of the checkpoint, too.
TEST_F(Train, RollsBackToTheSameWeightsInAllLayouts) {
  std::optional<int> expected_code;
  std::vector<std::pair<double, json>> expected;
  for (const std::string way : {"ddp", "zero1", "fsdp --parallel.reshard=never"}) {
    fs::remove_all(run_);
    const Finished result = tessera(
        fixed(concat("--train.steps=40 --optim.lr=1 --optim.warmup=39 --spike 1.5 --non-finite "
                     "rollback --save-every 4 --check-replicas 1 --dp 2 --parallel.nproc=2 "
                     "--dp-type ",
                     way)));
    std::vector<std::pair<double, json>> found;
    for (const json& step : steps()) {
      found.emplace_back(step["loss"], step.value("rolled_back_to", json()));
    }
    if (!expected_code) {
      expected_code = result.code;
      expected = found;
    }
    EXPECT_EQ(result.code, *expected_code) << way << "\n" << result.err;
    EXPECT_EQ(found, expected) << way;
    EXPECT_NE(result.err.find("the run continues with the weights after"), std::string::npos)
        << result.err;
    const bool ends = result.err.find("has rolled back 4 times") != std::string::npos;
    EXPECT_EQ(result.code, ends ? 1 : 0) << way << "\n" << result.err;
  }
}

// Each gradient of bf16 travels as four bytes instead of two.
TEST_F(Train, SumsGradientsInTheDtypeThatIsAskedFor) {
  for (const std::string way : {"ddp", "fsdp"}) {
    std::vector<int64_t> sent;
    for (const std::string dtype : {"same", "fp32"}) {
      fs::remove_all(run_);
      const Finished result = tessera(
          fixed(concat("--train.steps=2 --train.dtype=bf16 --dp 2 --parallel.nproc=2 --dp-type ",
                       way, " --parallel.reduce_dtype=", dtype)));
      ASSERT_EQ(result.code, 0) << way << "\n" << result.err;
      int64_t all = 0;
      const json groups = steps().back()["sent_bytes"];
      for (const json& bytes : groups) all += bytes.get<int64_t>();
      sent.push_back(all);
    }
    // Beside them are small sums, and the gathered parameters of fsdp.
    EXPECT_GT(static_cast<double>(sent[1]),
              (way == "ddp" ? 1.9 : 1.3) * static_cast<double>(sent[0]))
        << way;
  }
}

TEST_F(Train, ValidatesAndExportsTheAverageOfItsWeights) {
  std::vector<double> expected;
  for (const std::string way :
       {"--dp 1", "--dp 2 --parallel.nproc=2 --dp-type zero1",
        "--dp 2 --parallel.nproc=2 --dp-type fsdp", "--pp 2 --parallel.nproc=2"}) {
    fs::remove_all(run_);
    const Finished result = tessera(
        fixed(concat("--train.steps=4 --ema-decay 0.5 --validate-ema --train.validate_every=1 "
                     "--data.validation_share=0.2 --save-every 4 --run.save=true ",
                     way)));
    ASSERT_EQ(result.code, 0) << way << "\n" << result.err;
    std::vector<double> found;
    for (const json& step : steps()) found.push_back(step["validation_loss"]);
    if (expected.empty()) expected = found;
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << way;
  }
  const std::string out = folder_.path("ema");
  const Finished exported = tessera(concat(" export ", run_, " ", out, " --ema"));
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_NE(text_of(out + "/model.safetensors"), text_of(run_ + "/model/model.safetensors"));
  EXPECT_EQ(tessera(" inspect " + out).code, 0);
}

TEST_F(Train, TracesChosenSteps) {
  const Finished result =
      tessera(fixed("--train.steps=4 --trace-steps 1-2 --dp 2 --parallel.nproc=2"));
  ASSERT_EQ(result.code, 0) << result.err;
  for (const int rank : {0, 1}) {
    const std::string path = concat(run_, "/trace/steps-1-2.rank-", rank, ".json");
    const json trace = json::parse(text_of(path));
    std::map<std::string, int> spans;
    int counters = 0;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == "X") ++spans[event["name"]];
      if (event["ph"] == "C") ++counters;
    }
    EXPECT_EQ(spans["step 1"] + spans["step 2"], 2) << rank;
    EXPECT_EQ(spans.count("step 0") + spans.count("step 3"), 0U) << rank;
    EXPECT_GT(spans["aten::mm"], 0) << rank;
    EXPECT_GT(counters, 0) << rank;
    EXPECT_TRUE(std::ranges::any_of(spans, [](const auto& span) {
      return span.first.find("all_reduce") != std::string::npos;
    })) << rank;
  }
}

}  // namespace
}  // namespace tessera
