// The examples of a reader's own module, own sharded or split module and own pipeline, as their
// reader runs them.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <regex>

#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

// The program on so many ranks.
testkit::Finished on_ranks(int count, const std::string& program) {
  return testkit::run("OMP_NUM_THREADS=1 " TESSERA_PROGRAM " run --nproc " + std::to_string(count) +
                      " -- " + program);
}

testkit::Finished own_module(const std::string& arguments) {
  return testkit::run(TESSERA_OWN_MODULE " " + arguments);
}

// The numbers behind this word.
std::vector<double> numbers_in(const std::string& text, const std::string& word) {
  const std::regex pattern(word + " ([0-9.e-]+)");
  std::vector<double> numbers;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), pattern);
       at != std::sregex_iterator(); ++at) {
    numbers.push_back(std::stod((*at)[1]));
  }
  return numbers;
}

std::vector<double> losses_in(const std::string& text) {
  return numbers_in(text, "loss");
}

// A text that no change of the documents changes.
TEST(OwnModule, LearnsATextAndDoesSoTheSameWayTwice) {
  const std::string text = TESSERA_SOURCE_DIR "/LICENSE";
  const auto finished = own_module(text);
  ASSERT_EQ(finished.code, 0) << finished.err;
  const std::vector<double> losses = losses_in(finished.out);
  ASSERT_EQ(losses.size(), 7U) << finished.out;
  EXPECT_NEAR(losses.front(), std::log(256), 0.2) << "nothing is known of the first byte";
  EXPECT_LT(losses.back(), 2.8) << "single bytes tell 3.2: " << finished.out;
  EXPECT_EQ(own_module(text).out, finished.out);
}

// In float32 the sum of two halves of a batch differs from that of the whole in the last places,
// which 150 steps of training amplify.
TEST(OwnModule, LearnsTheSameOnTwoRanks) {
  const std::string text = TESSERA_SOURCE_DIR "/LICENSE";
  const auto two = on_ranks(2, TESSERA_OWN_MODULE " " + text);
  ASSERT_EQ(two.code, 0) << two.err;
  const std::vector<double> alone = losses_in(own_module(text).out);
  const std::vector<double> losses = losses_in(two.out);
  ASSERT_EQ(losses.size(), alone.size()) << two.out;
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], alone[i], 2e-3) << i;
}

TEST(OwnPipeline, LearnsTheSameOnAnyNumberOfRanks) {
  const std::vector<double> alone = losses_in(testkit::run(TESSERA_OWN_PIPELINE).out);
  ASSERT_EQ(alone.size(), 7U);
  EXPECT_LT(alone.back(), 0.01 * alone.front());
  const auto three = on_ranks(3, TESSERA_OWN_PIPELINE);
  ASSERT_EQ(three.code, 0) << three.err;
  const std::vector<double> losses = losses_in(three.out);
  ASSERT_EQ(losses.size(), alone.size()) << three.out;
  EXPECT_NEAR(losses[0], alone[0], 1e-6);
  EXPECT_NEAR(losses[1], alone[1], 0.02 * alone[1]);  // 50 steps amplify the last places.
  EXPECT_LT(losses.back(), 0.01 * losses.front());
}

// On its ranks, in a folder of its own: it writes its weights to the current one.
testkit::Finished own_fsdp(int ranks) {
  const testkit::TemporaryFolder folder;
  const std::string there = "cd " + folder.path() + " && ";
  if (ranks == 1) return testkit::run(there + TESSERA_OWN_FSDP);
  return testkit::run(there + TESSERA_PROGRAM " run --nproc " + std::to_string(ranks) +
                      " -- " TESSERA_OWN_FSDP);
}

void expect_even_shards(const std::string& out, int ranks) {
  constexpr double kBytes = 4 * 21'840;  // Of all parameters.
  const std::vector<double> bytes = numbers_in(out, "keeps");
  EXPECT_EQ(bytes.size(), static_cast<size_t>(ranks)) << out;
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0.0), kBytes) << out;
  // In each of its four units, a rank may have up to ranks - 1 numbers less than the others.
  for (const double each : bytes) EXPECT_NEAR(each, kBytes / ranks, 4 * 4 * (ranks - 1)) << out;
}

// The module has learned, the saved one is the trained one, and any number of ranks computes the
// losses of the first.
void expect_learned(const testkit::Finished& finished, size_t num_losses,
                    std::vector<double>& first) {
  ASSERT_EQ(finished.code, 0) << finished.err;
  const std::vector<double> losses = losses_in(finished.out);
  ASSERT_EQ(losses.size(), num_losses) << finished.out;
  EXPECT_LT(losses.back(), 0.1 * losses.front()) << finished.out;
  if (first.empty()) first = losses;
  // The last places of float32 sums differ. Where that moves a value to the other side of a ReLU's
  // or a pool's edge, one gradient changes by a thousandth, which 60 to 200 steps amplify: on one
  // processor, the first epoch of 40 steps then differed by 0.13 %, the fourth by 30 %.
  EXPECT_NEAR(losses[0], first[0], 0.005 * first[0]) << finished.out;
  const std::vector<double> accuracy = numbers_in(finished.out, "accuracy");
  ASSERT_EQ(accuracy.size(), 2U) << finished.out;
  EXPECT_GT(accuracy[0], 0.95) << finished.out;
  EXPECT_EQ(accuracy[1], accuracy[0]) << "the saved module is the trained one: " << finished.out;
}

TEST(OwnFsdp, LearnsTheSameOnAnyNumberOfRanks) {
  std::vector<double> alone;
  for (const int ranks : {1, 2, 3}) {
    const auto finished = own_fsdp(ranks);
    ASSERT_NO_FATAL_FAILURE(expect_learned(finished, 5, alone)) << ranks;
    expect_even_shards(finished.out, ranks);
  }
}

TEST(OwnTensorParallel, LearnsTheSameOnAnyNumberOfRanks) {
  std::vector<double> alone;
  for (const int ranks : {1, 2, 3}) {
    const auto finished = ranks == 1 ? testkit::run(TESSERA_OWN_TENSOR_PARALLEL)
                                     : on_ranks(ranks, TESSERA_OWN_TENSOR_PARALLEL);
    ASSERT_NO_FATAL_FAILURE(expect_learned(finished, 7, alone)) << ranks;
    const std::vector<double> bytes = numbers_in(finished.out, "keeps");
    EXPECT_EQ(bytes.size(), static_cast<size_t>(ranks)) << finished.out;
    for (const double each : bytes) EXPECT_LT(each * ranks, 1.1 * 4 * 57'898) << finished.out;
  }
}

TEST(OwnModule, SaysWhatIsWrong) {
  const auto finished = own_module("/no/such/text");
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.err.find("/no/such/text"), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace tessera
