// `tessera train` with sequences that are split over ranks, and with packed documents.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tessera/base/text.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;
using testkit::TemporaryFolder;

// tests/gpu.sh asks for one.
std::string device_flag() {
  const char* const device = std::getenv("TESSERA_TEST_DEVICE");
  return device == nullptr ? "" : concat(" --device ", device);
}

struct Losses {
  std::vector<double> training = {};
  std::vector<double> validation = {};
};

class ContextTrain : public testing::Test {
 protected:
  const TemporaryFolder folder_;

  // Short texts of different lengths.
  std::string texts() const {
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (int j = 0; j < 20 + i * 7 % 90; ++j) text += static_cast<char>('a' + (i + j * j) % 23);
      (void)folder_.file(concat("text", i, ".txt"), text);
    }
    return folder_.path();
  }

  std::string command(const std::string& more) const {
    return concat(TESSERA_PROGRAM, " train --preset tiny --model.num_hidden_layers=2 --data ",
                  folder_.path(), " --seq 64 --batch 4 --steps 6 --lr 0.01 --threads 1",
                  " --train.validate_every=3 --data.validation_share=0.4 --run.save=false "
                  "--overwrite --run-dir ",
                  run_, device_flag(), " ", more);
  }

  Losses losses(const std::string& more) const {
    const Finished finished = testkit::run(command(more));
    EXPECT_EQ(finished.code, 0) << more << finished.err;
    Losses read;
    std::ifstream file(run_ + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json step = json::parse(line);
      read.training.push_back(step["loss"]);
      if (step.contains("validation_loss")) read.validation.push_back(step["validation_loss"]);
    }
    return read;
  }

  void expect_same(const std::string& more, const Losses& alone) const {
    const Losses split = losses(more);
    ASSERT_EQ(split.training.size(), alone.training.size()) << more;
    ASSERT_EQ(split.validation.size(), alone.validation.size()) << more;
    for (size_t i = 0; i < alone.training.size(); ++i) {
      EXPECT_NEAR(split.training[i], alone.training[i], 1e-4) << more << ", step " << i;
    }
    for (size_t i = 0; i < alone.validation.size(); ++i) {
      EXPECT_NEAR(split.validation[i], alone.validation[i], 1e-4) << more;
    }
  }

  void expect_refused(const std::string& more, const std::string& word) const {
    const Finished finished = testkit::run(command(more));
    EXPECT_EQ(finished.code, 2) << more << finished.err;
    EXPECT_NE(finished.err.find(word), std::string::npos) << more << finished.err;
    EXPECT_EQ(finished.err.find("rank 1"), std::string::npos) << finished.err;
  }

  const TemporaryFolder runs_;
  const std::string run_ = runs_.path("run");
};

TEST_F(ContextTrain, HasTheLossesOfOneProcess) {
  texts();
  const Losses alone = losses("--nproc 1");
  EXPECT_FALSE(alone.validation.empty());
  expect_same("--cp 2", alone);
  expect_same("--cp 2 --cp-type all-gather --cp-layout contiguous", alone);
  expect_same("--cp 2 --cp-type ulysses --cp-layout striped", alone);
  expect_same("--cp 2 --cp-type hierarchical --cp-sizes 2,1 --tp 2", alone);
}

TEST_F(ContextTrain, HasTheLossesOfOneProcessOnPackedDocuments) {
  texts();
  const Losses plain = losses("--nproc 1");
  const Losses alone = losses("--nproc 1 --data.documents=true");
  EXPECT_GT(std::abs(plain.training.at(0) - alone.training.at(0)), 1e-4);
  expect_same("--cp 2 --data.documents=true", alone);
  expect_same("--cp 2 --data.documents=true --cp-layout per-document --dp 2 --dp-type fsdp", alone);
}

TEST_F(ContextTrain, RefusesWhatDoesNotFitBeforeAnyRankStarts) {
  texts();
  expect_refused("--cp 3", "multiple of");
  expect_refused("--cp 2 --cp-type rings", "did you mean 'ring'");
  expect_refused("--cp 8 --cp-type ulysses", "query heads");
  expect_refused("--cp 4 --cp-type hierarchical --cp-sizes 2,3", "legal sizes");
  expect_refused("--cp 4 --cp-type hierarchical", "legal sizes");
  expect_refused("--cp-layout striped", "--cp above 1");
  expect_refused("--nproc 1 --data.documents=true --data.document_end=999", "vocabulary");
}

}  // namespace
}  // namespace tessera
