#include "tessera/run/resume.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::TemporaryFolder;

ConfigAssignment set(const char* name, const char* text) {
  const ConfigField& field = config_field(name);
  return {&field, parse_value(field, text), name, text};
}

class Resume : public testing::Test {
 protected:
  void save(int64_t step, const ConfigLayers& layers) const {
    const CheckpointFolder all(run_ + "/checkpoints");
    CheckpointDraft(all.path_of(step), 0)
        .publish({.step = step, .state = {{"config", to_toml(resolve(layers))}}});
  }
  TrainConfig resumed(std::vector<ConfigAssignment> flags) const {
    flags.push_back(set("run.dir", run_.c_str()));
    flags.push_back(set("run.resume", "true"));
    return resolve(with_stored_config({.flags = flags}));
  }

  const TemporaryFolder folder_;
  const std::string run_ = folder_.path("run");
};

TEST_F(Resume, KeysThatAreNotGivenAreThoseOfTheRun) {
  EXPECT_EQ(resumed({}).optim.lr, TrainConfig().optim.lr) << "there is no checkpoint yet";
  EXPECT_EQ(stored_config(run_), std::nullopt);
  save(5, {.flags = {set("optim.lr", "0.5"), set("train.steps", "100"), set("parallel.tp", "2"),
                     set("run.keep_last", "7")}});
  const TrainConfig config = resumed({set("train.steps", "1000")});
  EXPECT_EQ(config.optim.lr, 0.5);
  EXPECT_EQ(config.train.steps, 1000);
  EXPECT_EQ(config.optim.warmup, 10) << "as the run began, not as 1000 steps would";
  EXPECT_EQ(config.parallel.tp, 2);
  EXPECT_EQ(config.run.keep_last, 7);
  EXPECT_TRUE(config.run.resume);
  EXPECT_EQ(stored_config(run_)->train.steps, 100);
}

TEST_F(Resume, AnotherLayoutReplacesTheWholeLayout) {
  save(5, {});  // dp 2 × pp 2.
  const TrainConfig config = resumed({set("parallel.tp", "2")});
  EXPECT_EQ(config.parallel.pp, 1);
  EXPECT_EQ(config.parallel.nproc, 2);
  EXPECT_EQ(config.run.record_every, 0);
}

TEST_F(Resume, WhatWouldChangeTheCurveIsRefused) {
  save(5, {.flags = {set("optim.lr", "0.5"), set("data.batch", "16")}});
  const TrainConfig before = *stored_config(run_);
  EXPECT_NO_THROW(check_same_curve(
      before,
      resumed({set("train.steps", "9000"), set("parallel.dp", "4"), set("train.dtype", "bf16")})));
  EXPECT_EQ(message_of<ConfigError>([&] {
              check_same_curve(before, resumed({set("optim.lr", "0.25"), set("data.seed", "1")}));
            }),
            "the run to resume was another one: data.seed was 0 and is 1; optim.lr was 0.5 and is "
            "0.25. Its curve would change; leave that out, or give --resume-anyway");
  EXPECT_EQ(message_of<ConfigError>(
                [&] { check_same_curve(before, resumed({set("train.validate_every", "0")})); }),
            "the run to resume was another one: the share of data held out for validation was 0.05 "
            "and is 0. Its curve would change; leave that out, or give --resume-anyway");
}

TEST_F(Resume, AnotherCapacityOfExpertsIsRefused) {
  save(5, {.flags = {set("model.preset", "tiny-moe")}});
  EXPECT_EQ(message_of<ConfigError>([&] {
              check_same_curve(*stored_config(run_),
                               resumed({set("train.expert_capacity_factor", "2")}));
            }),
            "the run to resume was another one: train.expert_capacity_factor was 0.0 and is 2.0. "
            "Its curve would change; leave that out, or give --resume-anyway");
}

TEST_F(Resume, ARestartResumesItsOwnRunAndStartsAgainWithoutACheckpoint) {
  const auto config = [&](std::vector<ConfigAssignment> flags) {
    flags.push_back(set("run.dir", run_.c_str()));
    return restarted(resolve({.flags = flags}));
  };
  EXPECT_TRUE(config({}).run.overwrite);
  EXPECT_FALSE(config({}).run.resume);
  EXPECT_TRUE(config({set("run.resume", "true")}).run.overwrite) << "what the first attempt left";
  save(5, {.flags = {set("optim.lr", "0.5")}});
  for (const char* const overwrite : {"false", "true"}) {
    const TrainConfig again = config({set("optim.lr", "0.5"), set("run.overwrite", overwrite)});
    EXPECT_TRUE(again.run.resume) << overwrite;
    EXPECT_FALSE(again.run.overwrite) << overwrite;
  }
  EXPECT_TRUE(config({set("optim.lr", "0.25"), set("run.overwrite", "true")}).run.overwrite)
      << "the checkpoint is that of the run to replace";
  EXPECT_NE(message_of<ConfigError>([] { restarted(resolve({})); }).find("--run-dir"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
