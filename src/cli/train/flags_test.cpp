#include "cli/train/flags.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "cli/parse.h"
#include "tessera/base/error.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera::cli {
namespace {

using Words = std::vector<std::string>;
using testkit::message_of;

TrainConfig config_of(const Words& words) {
  CLI::App app("", "tessera train");
  TrainFlags flags;
  add_train_flags(app, flags);
  EXPECT_EQ(parse(app, words), std::nullopt);
  return flags.config();
}

// The full interface that comparisons with other software rely on.
TEST(TrainFlags, FixedInterface) {
  const TrainConfig config =
      config_of({"--model",   "dir",  "--data",         "t.bin", "--nproc",      "1",
                 "--steps",   "20",   "--batch",        "4",     "--seq",        "64",
                 "--lr",      "3e-4", "--weight-decay", "0.2",   "--no-shuffle", "--no-clip",
                 "--threads", "2",    "--dtype",        "bf16",  "--run-dir",    "out"});
  EXPECT_EQ(config.model.path, "dir");
  EXPECT_EQ(config.data.paths, Words{"t.bin"});
  EXPECT_EQ(config.train.steps, 20);
  EXPECT_EQ(config.data.batch, 4);
  EXPECT_EQ(config.data.seq, 64);
  EXPECT_EQ(config.optim.lr, 3e-4);
  EXPECT_EQ(config.optim.weight_decay, 0.2);
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.optim.clip, 0);
  EXPECT_EQ(config.train.threads, 2);
  EXPECT_EQ(config.train.dtype, "bf16");
  EXPECT_EQ(config.run.dir, "out");
}

TEST(TrainFlags, FileFlagsAndOverridesMeet) {
  const testkit::TemporaryFolder folder;
  const std::string file =
      folder.file("run.toml", "[optim]\nlr = 1\nclip = 5\n[train]\nsteps = 7\n");
  const TrainConfig config = config_of(
      {"--optim.lr=3", "--config", file, "--lr", "2", "--steps", "9", "--data.weights", "1,2"});
  EXPECT_EQ(config.optim.lr, 3);
  EXPECT_EQ(config.optim.clip, 5);
  EXPECT_EQ(config.train.steps, 9);
  EXPECT_EQ(config.data.weights, (std::vector<double>{1, 2}));
}

TEST(TrainFlags, Switches) {
  EXPECT_TRUE(config_of({"--overwrite", "--run-dir", "x"}).run.overwrite);
  EXPECT_TRUE(config_of({"--resume", "--run-dir", "x"}).run.resume);
  EXPECT_FALSE(config_of({"--data.shuffle=false"}).data.shuffle);
  EXPECT_EQ(message_of<ConfigError>([] { config_of({"--no-clip", "--clip", "2"}); }),
            "--no-clip and --clip 2 contradict each other; leave one out");
  EXPECT_EQ(message_of<ConfigError>([] { config_of({"--no-shuffle", "--data.shuffle=true"}); }),
            "--no-shuffle and --data.shuffle true contradict each other; leave one out");
}

TEST(TrainFlags, WrongWordsAreNamed) {
  EXPECT_EQ(
      message_of<ConfigError>([] { config_of({"--steps", "many"}); }),
      "--steps: train.steps is 'many'; it must be a whole number from 1 to 1,000,000,000,000");
  EXPECT_EQ(message_of<ConfigError>([] { config_of({"--lr", "-1e-3"}); }),
            "--lr: optim.lr is '-1e-3'; it must be a number from 0");
  EXPECT_EQ(
      message_of<ConfigError>([] { config_of({"--dtype", "fp33"}); }),
      "--dtype: train.dtype is 'fp33'; choose fp32, bf16, fp16 or fp64; did you mean 'fp32'?");
  CLI::App app("", "tessera train");
  TrainFlags flags;
  add_train_flags(app, flags);
  testing::internal::CaptureStderr();
  EXPECT_EQ(parse(app, {"--optim.weight_deacy=1"}), kBadUsage);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("did you mean '--optim.weight_decay'?"),
            std::string::npos);
}

TEST(TrainFlags, HelpHasEveryFlagAndNotEveryKey) {
  CLI::App app("", "tessera train");
  TrainFlags flags;
  add_train_flags(app, flags);
  const std::string help = app.help();
  for (const ConfigField& field : config_fields()) {
    EXPECT_NE(help.find(field.flag), std::string::npos) << field.name();
    EXPECT_EQ(help.find("--" + field.name()), std::string::npos) << field.name();
  }
}

}  // namespace
}  // namespace tessera::cli
