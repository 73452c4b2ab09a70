// Runs whose numbers go wrong, averages of weights, and traces of steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tessera/base/text.h"
#include "tests/e2e/train_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

// The rate grows until gradient norms are spikes. Shards that are kept gathered must take the
// weights of the checkpoint, too. On a GPU, products of other layouts may add in another order; in
// double precision, losses then differ by 1e-9 after so many steps.
TEST_F(Train, RollsBackToTheSameWeightsInAllLayouts) {
  std::vector<double> expected;
  std::vector<json> expected_returns;
  for (const std::string way : {"ddp", "zero1", "fsdp --parallel.reshard=never"}) {
    fs::remove_all(run_);
    const Finished result = tessera(
        fixed(concat("--train.steps=32 --train.dtype=fp64 --optim.lr=0.24 --optim.warmup=31 "
                     "--spike 1.3 --non-finite rollback --save-every 4 --check-replicas 1 --dp 2 "
                     "--parallel.nproc=2 --dp-type ",
                     way)));
    ASSERT_EQ(result.code, 0) << way << "\n" << result.err;
    EXPECT_NE(result.err.find("the run continues with the weights after"), std::string::npos)
        << result.err;
    std::vector<json> returns;
    for (const json& step : steps()) returns.push_back(step.value("rolled_back_to", json()));
    if (expected.empty()) {
      expected = losses();
      expected_returns = returns;
    }
    EXPECT_EQ(returns, expected_returns) << way;
    ASSERT_EQ(losses().size(), expected.size()) << way;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(losses()[i], expected[i], is_on_gpu() ? 1e-6 : 0) << way << ", step " << i;
    }
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
