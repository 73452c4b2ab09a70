// `tessera train` with sequences that are split over ranks, and with packed documents.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/format/unit_record.h"
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
    expect_known_traffic(finished.out, more);
    Losses read;
    std::ifstream file(run_ + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json step = json::parse(line);
      EXPECT_EQ(
          step.contains("sent_bytes") && step["sent_bytes"].contains("batch"),
          more.find("documents") != std::string::npos && more.find("--dp ") != std::string::npos)
          << more;
      read.training.push_back(step["loss"]);
      if (step.contains("validation_loss")) read.validation.push_back(step["validation_loss"]);
    }
    return read;
  }

  // What rank 0 sent to other ranks of its sequence is what the formula says.
  static void expect_known_traffic(const std::string& out, const std::string& more) {
    static const std::regex line(R"((cp\w*): ([\d,]+) bytes(; .* = ([\d,]+))?\n)");
    size_t found = 0;
    for (std::sregex_iterator at(out.begin(), out.end(), line); at != std::sregex_iterator();
         ++at) {
      EXPECT_EQ((*at)[2], (*at)[4]) << more << ": " << at->str();
      ++found;
    }
    EXPECT_EQ(found > 0, more.find("--cp ") != std::string::npos) << more << out;
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
    EXPECT_FALSE(std::filesystem::exists(run_)) << more;
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
  expect_same("--cp 2 --cp-type hierarchical --cp-sizes 1,2 --dp-type fsdp", alone);
}

TEST_F(ContextTrain, HasTheLossesOfOneProcessOnPackedDocuments) {
  texts();
  const Losses plain = losses("--nproc 1");
  const Losses alone = losses("--nproc 1 --data.documents=true");
  EXPECT_GT(std::abs(plain.training.at(0) - alone.training.at(0)), 1e-4);
  expect_same("--cp 2 --data.documents=true", alone);
  expect_same("--cp 2 --data.documents=true --cp-layout per-document --dp 2 --dp-type fsdp", alone);
}

TEST_F(ContextTrain, SendsWhatTheFormulaSaysInBfloat16) {
  texts();
  for (const char* const type : {"ring", "all-gather", "ulysses"}) {
    losses(concat("--cp 2 --dtype bf16 --cp-type ", type));
  }
}

TEST_F(ContextTrain, RecordsExchangesAndShowsThem) {
  texts();
  losses("--cp 2 --run.record_every=3");
  for (const UnitRecord& record : read_unit_records(run_, 5)) {
    for (const UnitAction action : {UnitAction::kExchange, UnitAction::kAttend}) {
      EXPECT_TRUE(std::ranges::any_of(
          record.events, [&](const UnitEvent& event) { return event.action == action; }));
    }
  }
  const std::string drawn = folder_.path("exchange.svg");
  const Finished shown = testkit::run(concat(TESSERA_PROGRAM, " schedule --from-trace ", run_,
                                             " --units --color never --svg ", drawn));
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("\nexchange "), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("communication of rank 0: "), std::string::npos) << shown.out;
  std::ifstream picture(drawn);
  const std::string svg{std::istreambuf_iterator<char>(picture), {}};
  EXPECT_NE(svg.find("exchange in flight"), std::string::npos);
}

TEST_F(ContextTrain, RefusesWhatDoesNotFitBeforeAnyRankStarts) {
  texts();
  expect_refused("--cp 3", "nearest legal lengths");
  expect_refused("--cp 2 --cp-type rings", "did you mean 'ring'");
  expect_refused("--cp 8 --cp-type ulysses", "nearest legal degrees");
  expect_refused("--cp 4 --cp-type hierarchical --cp-sizes 2,3", "legal sizes");
  expect_refused("--cp 4 --cp-type hierarchical", "legal sizes");
  expect_refused("--cp-layout striped", "--cp above 1");
  expect_refused("--nproc 1 --data.documents=true --data.document_end=999", "vocabulary");
}

}  // namespace
}  // namespace tessera
