// `tessera train --tp` and `--ep` as users run them: what they send, and degrees that do not fit.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tessera/base/text.h"
#include "tests/e2e/run_fixture.h"
#include "tests/testkit/contains.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::Finished;

class TrainTensor : public TrainRun {
 protected:
  const std::string tokens_ = folder_.file("tokens.bin", std::string(4096, '\1'));

  Finished train(const std::string& flags) const {
    return tessera(concat(" train --data ", tokens_,
                          " --steps 2 --threads 1 --dtype fp32 --run.save=false --run-dir ", run_,
                          " ", flags));
  }
};

// 3 layers of 32, 4 rows of 8 positions; q = 1/2. The blocks send 10 · q · X each, the embedding
// 2 · q · X, the head 3 · q · X; X = 4 · 4 · 8 · 32 bytes.
TEST_F(TrainTensor, BytesSentPerGroupAreReportedBesideTheFormula) {
  const Finished run = train(
      "--tp 2 --batch 4 --seq 8 --model.vocab_size=300 --model.hidden_size=32 "
      "--model.intermediate_size=48 --model.num_hidden_layers=3 "
      "--model.num_attention_heads=4 --model.num_key_value_heads=4 --model.head_dim=8");
  ASSERT_EQ(run.code, 0) << run.err;
  const int64_t half = 4 * 4 * 8 * 32 / 2;
  const int64_t rows = 4 * 4 * 8;        // One float per position.
  const int64_t norms = 4 * 32 * 7;      // The gradients of 7 norms.
  const int64_t loss = rows + 2 * rows;  // Two all-reduces; of 2 ranks each sends all of it.
  const int64_t sent = (3 * 10 + 2 + 3) * half + loss + norms;
  EXPECT_EQ(steps().back()["sent_bytes"]["tp"], sent);
  const std::string line = concat("tp: ", with_thousands(sent),
                                  " bytes; 10 · M · L · A · (n−1)/n = ", with_thousands(30 * half));
  EXPECT_TRUE(contains(run.out, line)) << run.out;
  EXPECT_TRUE(contains(text_of(run_ + "/report.html"), line));
}

// 4 layers of 8 experts with 3 matrices of 192 × 256; the other parameters are reduced apart.
TEST_F(TrainTensor, ExpertsAreReportedWithTheirOwnGroups) {
  const Finished run =
      train("--preset tiny-moe --model.vocab_size=300 --dp 4 --ep 2 --batch 4 --seq 8");
  ASSERT_EQ(run.code, 0) << run.err;
  const int64_t experts = 4 * 4 * 8 * 3 * 192 * 256;
  EXPECT_TRUE(contains(run.out, concat("; X · 2(n−1)/n = ", with_thousands(experts / 2))))
      << run.out;
  const int64_t others = 4 * (5'414'592 + 2 * 44 * 192) - experts;
  EXPECT_TRUE(contains(run.out, concat("; W · 2(n−1)/n = ", with_thousands(others * 3 / 2))));
  // 8 positions of 192 elements, in 4 layers.
  EXPECT_TRUE(contains(run.out, concat("; 4 · M · E · k · A/tp · (n−1)/n = ",
                                       with_thousands(4 * 4 * 2 * (4 * 8 * 192) / 2))));
}

// At the start, logits are near 0. Then each of 4 layers has a balancing loss of at least 1, since
// chosen experts have the larger probabilities, and a z-loss of about ln(8)²; over all layers
// together, the balancing loss would be about 2, the experts per token.
TEST_F(TrainTensor, ExpertsAreBalancedAsTheConfigurationSays) {
  const Finished run = train(
      "--preset tiny-moe --model.vocab_size=300 --dp 2 --ep 2 --batch 4 --seq 8 "
      "--train.balancing=layer --train.z_loss_coef=0.001");
  ASSERT_EQ(run.code, 0) << run.err;
  const auto step = steps().front();
  EXPECT_GE(step["aux_loss"].get<double>(), 4);
  EXPECT_LT(step["aux_loss"].get<double>(), 8);
  EXPECT_NEAR(step["z_loss"].get<double>(), 4 * std::log(8) * std::log(8), 2);
}

TEST_F(TrainTensor, DegreesThatDoNotFitAFolderAreRefusedBeforeRanksStart) {
  const std::string model = folder_.path("model");
  std::filesystem::create_directory(model);
  std::ofstream(model + "/config.json") << R"({"model_type":"llama","vocab_size":512,)"
                                        << R"("hidden_size":48,"intermediate_size":64,)"
                                        << R"("num_hidden_layers":1,"num_attention_heads":6,)"
                                        << R"("num_key_value_heads":6})";
  const Finished run = train(concat("--tp 4 --seq 8 --batch 4 --model ", model));
  EXPECT_EQ(run.code, 2);
  EXPECT_TRUE(contains(run.err, "nearest legal degrees: 3, 6")) << run.err;
  EXPECT_FALSE(contains(run.err, "rank")) << run.err;
  EXPECT_FALSE(std::filesystem::exists(run_));
}

}  // namespace
}  // namespace tessera
