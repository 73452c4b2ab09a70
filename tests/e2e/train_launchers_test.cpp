// `tessera train` as a rank of other launchers.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>

#include "tessera/base/text.h"
#include "tessera/launch/socket.h"
#include "tests/e2e/train_fixture.h"
#include "tests/testkit/background.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Background;
using testkit::Finished;

TEST_F(Train, IsTheRankThatItIsToldToBe) {
  const std::string place = "RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 ";
  const Finished result = testkit::run(place + TESSERA_PROGRAM + fixed());
  EXPECT_EQ(result.code, 0) << result.err;
  fs::remove_all(run_);
  const Finished other = testkit::run(
      "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 " TESSERA_PROGRAM + fixed());
  EXPECT_EQ(other.code, 2) << other.err;
  EXPECT_NE(other.err.find("has started 2 ranks, but --nproc is 1"), std::string::npos)
      << other.err;
  EXPECT_FALSE(fs::exists(run_));
}

TEST_F(Train, IsOneJobUnderMpirun) {
  const std::string mpirun = "mpirun --allow-run-as-root --oversubscribe -n 2 " TESSERA_PROGRAM;
  const Finished result = testkit::run(mpirun + fixed("--dp 2 --parallel.nproc=2"));
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(losses().size(), 20U);
  for (size_t i = 0; i < losses().size(); ++i) {
    EXPECT_NEAR(losses()[i], peer()["losses"]["untied"][i].get<double>(), 1e-4) << i;
  }
  const std::string ranks = "on 2 ranks (dp 2)";
  EXPECT_NE(result.err.find(ranks), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(ranks), result.err.rfind(ranks)) << result.err;

  const Finished wrong = testkit::run(mpirun + fixed("--overwrite"));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("the launcher (open mpi) has started 2 ranks, but --nproc is 1"),
            std::string::npos)
      << wrong.err;
}

// The first rank chooses the directory for all.
TEST_F(Train, RanksOfOtherLaunchersShareANewRunDirectory) {
  const Finished result = testkit::run(
      concat("cd ", folder_.path(), " && mpirun --allow-run-as-root --oversubscribe -n 2 ",
             TESSERA_PROGRAM, " train --pp 2 --microbatches 2 --model ", kModels, "untied --data ",
             tokens_, " --batch 2 --seq 8 --steps 2 --run.record_every=2 --run.save=true"));
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* name : {"config.toml", "report.html", "model/config.json",
                           "pipeline/step-1.rank-0.json", "pipeline/step-1.rank-1.json"}) {
    EXPECT_TRUE(fs::exists(folder_.path(concat("runs/1/", name)))) << name;
  }
  EXPECT_FALSE(fs::exists(folder_.path("runs/2")));
}

TEST_F(Train, IsOneJobInAStepOfSlurm) {
  const PortReservation reserved("127.0.0.1");
  const auto rank = [&](const std::string& number) {
    return std::make_unique<Background>(
        words_of(fixed("--dp 2 --parallel.nproc=2")),
        std::map<std::string, std::string>{{"SLURM_PROCID", number},
                                           {"SLURM_NTASKS", "2"},
                                           {"SLURM_LOCALID", number},
                                           {"SLURM_NNODES", "1"},
                                           {"SLURM_STEP_ID", "0"},
                                           {"MASTER_PORT", std::to_string(reserved.port())}});
  };
  const auto first = rank("0");
  const auto second = rank("1");
  EXPECT_EQ(first->finish().code, 0) << first->seen().err;
  EXPECT_EQ(second->finish().code, 0) << second->seen().err;
  EXPECT_EQ(concat(second->seen().out, second->seen().err), "");  // The first one tells.
  EXPECT_EQ(steps().size(), 20U);
}

}  // namespace
}  // namespace tessera
