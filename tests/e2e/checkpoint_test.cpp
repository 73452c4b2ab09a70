// Checkpoints of `tessera train`, as users resume and inspect them.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>

#include "tessera/base/text.h"
#include "tests/e2e/checkpoint_fixture.h"
#include "tests/testkit/background.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Background;
using testkit::Finished;

// --- Resuming ---

TEST_F(Checkpointed, GoesOnInOtherLayoutsAndWorldSizes) {
  struct Pair {
    std::string from, to;
  };
  const std::map<std::string, std::vector<Pair>> pairs{
      {"untied",
       {{"--nproc 1", "--dp 2 --dp-type fsdp"},
        {"--dp 3 --dp-type fsdp", "--tp 2"},
        {"--tp 2", "--dp 2 --pp 2 --microbatches 2"}}},
      {"grouped_tied",
       {{"--dp 2 --dp-type zero1", "--nproc 1"},
        {"--pp 2 --microbatches 4", "--dp 3"},
        {"--dp 4 --dp-type hsdp --dp-replicate 2", "--pp 2 --schedule gpipe --microbatches 4"}}}};
  for (const auto& [model, ways] : pairs) {
    fs::remove_all(run_);
    expect_ok(train("--steps 10 --nproc 1", model));
    const std::vector<double> unbroken = losses();
    ASSERT_EQ(unbroken.size(), 10U);
    for (const auto& [from, to] : ways) {
      SCOPED_TRACE(concat(model, ": ", from, " → ", to));
      fs::remove_all(run_);
      expect_ok(train("--steps 5 --save-every 5 " + from, model));
      expect_ok(concat(" train --resume --steps 10 --run-dir ", run_, " ", to));
      const std::vector<double> broken = losses();
      ASSERT_EQ(broken.size(), unbroken.size());
      for (size_t i = 0; i < broken.size(); ++i) {
        EXPECT_NEAR(broken[i], unbroken[i], 1e-9 * unbroken[i]) << "step " << i;
      }
    }
  }
}

TEST_F(Checkpointed, ExpertsAndSequencesOverRanksGoOn) {
  const std::string start = concat(
      " train --preset tiny-moe --model.num_hidden_layers=1 --model.vocab_size=64 --data ", tokens_,
      " --batch 4 --seq 8 --threads 1 --dtype fp64 --train.validate_every=0 --run.save=false "
      "--optim.schedule=constant --optim.warmup=0 "
      "--run-dir ",
      run_);
  expect_ok(start + " --steps 6 --nproc 1");
  const std::vector<double> unbroken = losses();
  ASSERT_EQ(unbroken.size(), 6U);
  const std::vector<std::string> ways{"--dp 2 --ep 2", "--cp 2 --tp 2 --ep 2",
                                      "--dp 2 --dp-type fsdp --ep 2"};
  fs::remove_all(run_);
  for (size_t i = 0; i < ways.size(); ++i) {  // Two steps in each.
    const std::string steps = concat(" --steps ", 2 * i + 2, " --save-every 2 ", ways[i]);
    expect_ok(i == 0 ? start + steps : concat(" train --resume --run-dir ", run_, steps));
  }
  const std::vector<double> broken = losses();
  ASSERT_EQ(broken.size(), unbroken.size());
  for (size_t i = 0; i < broken.size(); ++i) {
    EXPECT_NEAR(broken[i], unbroken[i], 1e-9 * unbroken[i]) << "step " << i;
  }
}

TEST_F(Checkpointed, ARunThatWasKilledGoesOnBitForBit) {
  expect_ok(train("--steps 12 --nproc 1"));
  const std::vector<double> unbroken = losses();
  fs::remove_all(run_);
  {
    Background run(words_of(train("--steps 100000 --save-every 4 --keep-last 0 --nproc 1")));
    run.await("step-00000008:");
    run.signal(SIGKILL);
  }
  for (const auto& entry : fs::directory_iterator(checkpoints_)) {  // As if it had come no further.
    if (entry.path().filename() > "step-00000008") fs::remove_all(entry.path());
  }
  const Finished resumed =
      tessera(train("--steps 12 --save-every 4 --keep-last 2 --nproc 1 --resume"));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find(", resumed after step 8\n"), std::string::npos) << resumed.err;
  EXPECT_EQ(losses(), unbroken);
  const json listed = json::parse(tessera(" checkpoint ls --json " + run_).out);
  ASSERT_EQ(listed["checkpoints"].size(), 2U) << "the last 2";
  EXPECT_EQ(listed["checkpoints"][1]["step"], 12);
  EXPECT_EQ(latest(), checkpoints_ + "/step-00000012");
}

TEST_F(Checkpointed, WhatWouldChangeTheCurveIsRefused) {
  expect_ok(train("--steps 4 --save-every 2"));
  const std::string again = concat(" train --resume --run-dir ", run_, " --steps 6 ");
  expect_refused(again + "--lr 0.5", 2, "optim.lr was 0.01 and is 0.5");
  expect_refused(again + "--batch 8", 2, "data.batch was 4 and is 8");
  expect_refused(again + "--data.seed=3", 2, "--resume-anyway");
  expect_refused(concat(" train --resume --run-dir ", run_, " --dp 2"), 2,  // Before ranks start.
                 "tessera: the run has done 4 steps of 4; give a larger --steps");
  folder_.file("tokens.bin", some_tokens() + some_tokens());
  expect_refused(again, 2, "the data had 499 samples when the run was saved");
  expect_ok(again + "--lr 0.5 --resume-anyway");
  EXPECT_EQ(losses().size(), 6U);
}

TEST_F(Checkpointed, OtherDtypesGoOn) {
  for (const char* const way : {"fp32 bf16", "bf16 fp32", "fp16 fp64", "fp64 fp16"}) {
    fs::remove_all(run_);
    const auto dtypes = split(way, ' ');
    expect_ok(train(concat("--steps 4 --save-every 4 --train.dtype=", dtypes[0])));
    expect_ok(concat(" train --resume --steps 8 --run-dir ", run_, " --dtype ", dtypes[1]));
    const std::vector<double> all = losses();
    ASSERT_EQ(all.size(), 8U);
    EXPECT_NEAR(all[4], all[3], 0.5) << way << ": the curve goes on";
  }
}

TEST_F(Checkpointed, ACtrlCSavesTheLastStep) {
  Background run(words_of(train("--steps 1000000 --save-every 100000 --run.save=true")));
  run.await("step 1/");
  run.signal(SIGINT);
  EXPECT_EQ(run.finish().code, 128 + SIGINT);
  const size_t done = losses().size();
  const json listed = json::parse(tessera(" checkpoint ls --json " + run_).out);
  EXPECT_EQ(listed["checkpoints"][0]["step"], done);
  expect_ok(concat(" train --resume --run-dir ", run_, " --steps ", done + 1));
  EXPECT_EQ(losses().size(), done + 1);
  EXPECT_TRUE(fs::exists(run_ + "/model/config.json")) << "of the later end";
}

TEST_F(Checkpointed, WeightsAloneBeginAnotherRun) {
  expect_ok(train("--steps 4 --save-every 4 --run.save=true"));
  const std::string first = run_ + "-first";
  fs::rename(run_, first);
  expect_ok(train("--steps 2 --init-from " + first));
  const std::vector<double> from_checkpoint = losses();
  fs::remove_all(run_);
  expect_ok(concat(" train --model ", first, "/model --data ", tokens_,
                   " --batch 4 --seq 8 --lr 1e-2 --threads 1 --dtype fp64 --steps 2 --run-dir ",
                   run_));
  EXPECT_EQ(losses(), from_checkpoint);
  fs::remove_all(run_);
  expect_refused(train("--steps 2 --init-from " + first, "grouped_tied"), 1, "another model");
}

// --- The verbs ---

TEST_F(Checkpointed, VerbsShowCompareReshardAndExport) {
  expect_ok(train("--steps 4 --save-every 2 --dp 2 --dp-type fsdp --run.save=true"));
  const Finished shown = tessera(" checkpoint show " + run_);
  EXPECT_NE(shown.out.find("model.layers.0.mlp.up_proj.weight"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("optim.state.model.norm.weight.exp_avg_sq"), std::string::npos);
  EXPECT_NE(tessera(" checkpoint show --config " + run_).out.find("[optim]"), std::string::npos);

  const std::string third = folder_.path("three");
  expect_ok(concat(" checkpoint reshard ", run_, " ", third, " --ranks 3"));
  const Finished same = tessera(concat(" checkpoint diff ", run_, " ", third));
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_NE(same.out.find("no tensor differs"), std::string::npos) << same.out;
  const Finished other =
      tessera(concat(" checkpoint diff ", third, " ", checkpoints_, "/step-00000002 --json"));
  EXPECT_EQ(other.code, 1);
  const json first = json::parse(other.out)["differences"][0];
  EXPECT_GT(first["largest"], 0);
  EXPECT_LT(first["largest"], 1);

  const std::string out = folder_.path("out");
  expect_ok(concat(" export ", third, " ", out));
  EXPECT_EQ(text_of(out + "/config.json"), text_of(run_ + "/model/config.json"));
  const std::string imported = folder_.path("imported");
  const std::string model = folder_.path("model");
  expect_ok(concat(" checkpoint import ", run_, "/model ", model, " --ranks 2"));
  expect_ok(concat(" checkpoint import ", out, " ", imported));
  expect_ok(concat(" checkpoint diff ", model, " ", imported));
  expect_refused(concat(" checkpoint reshard ", run_, " ", third), 2, "exists already");
  expect_refused(" checkpoint verfy " + run_, 2, "did you mean 'verify'?");
  expect_refused(" checkpoint show " + folder_.path("none"), 1, "holds no complete checkpoint");
}

TEST_F(Checkpointed, AnOwnProgramSavesAndLoadsOnAnyNumberOfRanks) {
  const std::string path = folder_.path("own");
  for (const auto& [ranks, words] : {std::pair{4, "saved "}, {3, "loaded "}, {1, "loaded "}}) {
    const Finished result =
        tessera(concat(" run --nproc ", ranks, " -- ", TESSERA_OWN_CHECKPOINT, " ", path));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out.find(concat(words, path, " on ", ranks, " ranks\n")), std::string::npos)
        << result.out;
  }
  expect_ok(" checkpoint verify " + path);
}

}  // namespace
}  // namespace tessera
