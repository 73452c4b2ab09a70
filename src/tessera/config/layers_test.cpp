#include "tessera/config/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/format/llama_presets.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::message_of;

ConfigAssignment given(const std::string& name, const std::string& text) {
  const ConfigField& field = config_field(name);
  return {&field, parse_value(field, text), "--" + name};
}

std::string refusal(const ConfigLayers& layers) {
  return message_of<ConfigError>([&] { resolve(layers); });
}

TEST(ConfigLayers, NothingGivenIsASmallRunOnOurOwnSources) {
  const TrainConfig config = resolve({});
  EXPECT_EQ(config.model.shape, llama_preset("tiny"));
  ASSERT_FALSE(config.data.paths.empty());
  for (const std::string& path : config.data.paths) EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(config.optim.schedule, "cosine");
  EXPECT_GT(config.optim.warmup, 0);
  EXPECT_GT(config.train.validate_every, 0);
  EXPECT_GT(config.data.validation_share, 0);
  EXPECT_TRUE(config.run.save);
}

TEST(ConfigLayers, AModelsFolderIsTrainedAsItIsTold) {
  const TrainConfig config =
      resolve({.flags = {given("model.path", "dir"), given("data.paths", "t.bin")}});
  EXPECT_EQ(config.model.preset, "");
  EXPECT_EQ(config.optim.schedule, "constant");
  EXPECT_EQ(config.optim.warmup, 0);
  EXPECT_EQ(config.optim.clip, 0);
  EXPECT_EQ(config.optim.beta1, 0.9);
  EXPECT_EQ(config.optim.beta2, 0.95);
  EXPECT_EQ(config.optim.eps, 1e-8);
  EXPECT_EQ(config.train.validate_every, 0);
  EXPECT_EQ(config.data.validation_share, 0);
  EXPECT_FALSE(config.run.save);
}

TEST(ConfigLayers, WhatIsAskedForIsDoneWithAModelsFolder) {
  const ConfigLayers layers{
      .file = {given("optim.clip", "2"), given("train.validate_every", "5")},
      .flags = {given("model.path", "dir"), given("data.paths", "t.bin")},
      .overrides = {given("run.save", "true"), given("optim.schedule", "cosine")}};
  const TrainConfig config = resolve(layers);
  EXPECT_EQ(config.optim.clip, 2);
  EXPECT_EQ(config.train.validate_every, 5);
  EXPECT_GT(config.data.validation_share, 0);
  EXPECT_TRUE(config.run.save);
  EXPECT_EQ(config.optim.schedule, "cosine");
}

TEST(ConfigLayers, StrongerOnesComeLast) {
  ConfigLayers layers{.file = {given("optim.lr", "1"), given("model.hidden_size", "64")}};
  EXPECT_EQ(resolve(layers).optim.lr, 1);
  layers.flags = {given("optim.lr", "2")};
  EXPECT_EQ(resolve(layers).optim.lr, 2);
  layers.overrides = {given("optim.lr", "3"), given("model.preset", "llama3-8b")};
  const TrainConfig config = resolve(layers);
  EXPECT_EQ(config.optim.lr, 3);
  EXPECT_EQ(config.model.shape.hidden_size, 64);  // A key overrides every preset.
  EXPECT_EQ(config.model.shape.num_hidden_layers, 32);
}

TEST(ConfigLayers, SizesThatFollowFromOthers) {
  const TrainConfig config = resolve(
      {.overrides = {given("model.hidden_size", "256"), given("model.num_attention_heads", "8"),
                     given("train.steps", "100"), given("optim.schedule", "wsd")}});
  EXPECT_EQ(config.model.shape.head_dim, 32);
  EXPECT_EQ(config.model.shape.num_key_value_heads, 8);
  EXPECT_EQ(config.optim.warmup, 10);
  EXPECT_EQ(config.optim.decay, 20);
  EXPECT_EQ(config.train.validate_every, 10);
  EXPECT_EQ(resolve({.flags = {given("train.steps", "3")}}).optim.warmup, 0);
  EXPECT_EQ(resolve({.flags = {given("data.validation_share", "0")}}).train.validate_every, 0);
}

TEST(ConfigLayers, Contradictions) {
  ConfigAssignment no_clip = given("optim.clip", "0");
  no_clip.origin = "--no-clip";
  EXPECT_EQ(refusal({.flags = {no_clip}, .overrides = {given("optim.clip", "1")}}),
            "--no-clip and --optim.clip 1.0 contradict each other; leave one out");
  EXPECT_EQ(resolve({.file = {given("optim.clip", "1")}, .flags = {no_clip}}).optim.clip, 0);
  EXPECT_TRUE(contains(refusal({.flags = {given("run.dir", "x"), given("run.overwrite", "true"),
                                          given("run.resume", "true")}}),
                       "--overwrite and --resume contradict each other"));
  const ConfigLayers shape{.file = {given("model.hidden_size", "8")},
                           .flags = {given("model.path", "dir"), given("data.paths", "t.bin")}};
  EXPECT_TRUE(contains(refusal(shape),
                       "model.hidden_size (--model.hidden_size) and the model in "
                       "dir contradict each other"));
}

TEST(ConfigLayers, ARunsFolderIsChosenWhenItStarts) {
  EXPECT_EQ(resolve({}).run.dir, "");
  EXPECT_EQ(resolve({.flags = {given("run.dir", "x")}}).run.dir, "x");
  EXPECT_EQ(refusal({.flags = {given("run.resume", "true")}}), "--resume needs --run-dir DIR");
}

TEST(ConfigLayers, ValuesThatDoNotGoTogether) {
  EXPECT_EQ(refusal({.flags = {given("model.path", "dir")}}),
            "data.paths is empty; give --data FILE or FOLDER");
  EXPECT_TRUE(contains(refusal({.flags = {given("data.weights", "1,2,3")}}), "3 numbers for 2"));
  EXPECT_TRUE(
      contains(refusal({.flags = {given("optim.momentum", "0.9")}}), "needs optim.kind sgd"));
  EXPECT_TRUE(
      contains(refusal({.flags = {given("optim.decay", "9")}}), "needs optim.schedule wsd"));
  EXPECT_TRUE(contains(refusal({.flags = {given("optim.beta2", "1")}}), "below 1"));
  EXPECT_TRUE(
      contains(refusal({.flags = {given("data.batch", "2"), given("optim.accumulate", "3")}}),
               "optim.accumulate=3 is more than data.batch=2"));
  EXPECT_TRUE(contains(
      refusal({.flags = {given("data.validation_share", "0"), given("train.validate_every", "2")}}),
      "needs data.validation_share above 0"));
  EXPECT_TRUE(contains(refusal({.flags = {given("model.num_attention_heads", "3"),
                                          given("model.num_key_value_heads", "2")}}),
                       "not a multiple"));
}

TEST(ConfigLayers, RecordingNeedsAPipelineShardsOrContextParallelism) {
  const auto recorded = [](const std::string& type) {
    return ConfigLayers{.flags = {given("run.record_every", "2"), given("parallel.pp", "1"),
                                  given("parallel.dp", "2"), given("parallel.dp_type", type)}};
  };
  EXPECT_EQ(refusal(recorded("ddp")),
            "run.record_every=2 needs a pipeline, shards or context parallelism; give --pp, "
            "--dp-type fsdp or --cp as well, "
            "or leave it out");
  EXPECT_EQ(resolve(recorded("fsdp")).run.record_every, 2);
  EXPECT_EQ(resolve({.flags = {given("run.record_every", "2"), given("parallel.cp", "2")}})
                .run.record_every,
            2);
}

TEST(ConfigLayers, TextsOfACommandLine) {
  EXPECT_EQ(parse_value(config_field("data.paths"), "a,b"),
            ConfigValue(std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(parse_value(config_field("data.weights"), ""), ConfigValue(std::vector<double>{}));
  EXPECT_EQ(parse_value(config_field("data.shuffle"), "false"), ConfigValue(false));
  const auto refused = [](const char* name, const char* text) {
    return message_of<ConfigError>([&] { parse_value(config_field(name), text); });
  };
  EXPECT_EQ(refused("data.shuffle", "yes"), "data.shuffle is 'yes'; it must be true or false");
  EXPECT_EQ(refused("train.steps", "1e3"),
            "train.steps is '1e3'; it must be a whole number from 1 to 1,000,000,000,000");
  EXPECT_EQ(refused("data.weights", "1,x"), "data.weights is 'x'; it must be a list of numbers");
  EXPECT_EQ(refused("optim.final", ""), "optim.final is ''; it must be a number from 0 to 1");
}

TEST(ConfigLayers, RanksThatNoAxisTakesAreReplicas) {
  const auto parallel = [](std::vector<ConfigAssignment> flags) {
    return resolve({.flags = std::move(flags)}).parallel;
  };
  const ParallelSection shown = parallel({});
  EXPECT_EQ(shown, (ParallelSection{.nproc = 4, .dp = 2, .pp = 2, .microbatches = 4}));
  EXPECT_EQ(parallel({given("parallel.nproc", "1")}), ParallelSection{});
  EXPECT_EQ(parallel({given("parallel.nproc", "8"), given("parallel.pp", "2"),
                      given("data.batch", "16")}),
            (ParallelSection{.nproc = 8, .dp = 4, .pp = 2, .microbatches = 4}));
  EXPECT_EQ(parallel({given("parallel.dp", "3")}), (ParallelSection{.nproc = 3, .dp = 3}));
  EXPECT_EQ(parallel({given("model.path", "dir"), given("data.paths", "t.bin")}),
            ParallelSection{});
  EXPECT_TRUE(
      contains(refusal({.flags = {given("parallel.nproc", "3"), given("parallel.pp", "2")}}),
               "dp·tp·cp·pp is 2"));
  EXPECT_TRUE(contains(refusal({.flags = {given("parallel.dp", "9")}}), "too small for 9"));
  EXPECT_EQ(parallel({given("parallel.schedule", "zbv")}),
            (ParallelSection{.nproc = 4, .dp = 2, .pp = 2, .schedule = "zbv", .microbatches = 4}));
  EXPECT_EQ(parallel({given("data.batch", "5")}).microbatches, 2);
  EXPECT_TRUE(
      contains(refusal({.flags = {given("parallel.schedule", "zbv"), given("parallel.dp", "2")}}),
               "--schedule zbv needs a pipeline; give --pp as well"));
  EXPECT_TRUE(
      contains(refusal({.flags = {given("parallel.microbatches", "2"), given("parallel.dp", "2")}}),
               "--microbatches 2 needs a pipeline; give --pp as well"));
  EXPECT_TRUE(
      contains(refusal({.flags = {given("parallel.pp", "2"), given("optim.accumulate", "2")}}),
               "microbatches"));
}

TEST(TrainConfig, ExpertsThatDegreesDoNotDivideAreRefused) {
  const auto refused = [](const char* preset, const char* dp, const char* key, const char* value) {
    return refusal({.flags = {given("model.preset", preset), given("parallel.dp", dp),
                              given(std::string("parallel.") + key, value)}});
  };
  EXPECT_EQ(refused("tiny-moe", "3", "ep", "3"),
            "--ep 3 does not divide 8 experts; choose from 1, 2, 4, 8");
  EXPECT_EQ(
      refused("tiny", "2", "ep", "2"),
      "--ep 2 and --etp 1 divide experts, but the model has none; leave them out, or choose a "
      "model with experts, e.g. --preset tiny-moe");
  EXPECT_TRUE(contains(refused("tiny", "2", "etp", "2"), "the model has none"));
  EXPECT_EQ(resolve({.flags = {given("model.preset", "tiny-moe"), given("parallel.dp", "4"),
                               given("parallel.ep", "2"), given("parallel.etp", "2")}})
                .parallel.ep,
            2);
}

TEST(TrainConfig, Float8NeedsBf16) {
  const auto refused = [](std::vector<ConfigAssignment> flags) {
    flags.push_back(given("parallel.dp", "1"));
    return refusal({.flags = std::move(flags)});
  };
  EXPECT_EQ(refused({given("train.fp8", "rowwise")}),
            "--fp8 rowwise is for computing in bf16, but this is fp32; give --dtype bf16 as well, "
            "or leave it out");
  EXPECT_TRUE(contains(refused({given("train.fp8_head", "true")}), "give --fp8 rowwise as well"));
  EXPECT_TRUE(
      contains(refused({given("train.fp8", "rowwise"), given("train.dtype", "bf16"),
                        given("train.fp8_skip_first", "2"), given("train.fp8_skip_last", "3")}),
               "are more than the 4 blocks of the model"));
  const TrainConfig sharded = resolve(
      {.flags = {given("train.fp8", "tensorwise"), given("parallel.dp", "2"),
                 given("parallel.dp_type", "fsdp"), given("parallel.compute_dtype", "bf16")}});
  EXPECT_EQ(sharded.train.fp8, "tensorwise");
}

TEST(TrainConfig, WhatOnlyAGpuCanDoIsRefusedElsewhere) {
  EXPECT_EQ(refusal({.flags = {given("train.cuda_graphs", "true")}}),
            "--cuda-graphs needs a GPU; give --device cuda as well, or leave it out");
  EXPECT_EQ(refusal({.flags = {given("train.sync_every", "10")}}),
            "--sync-every 10 queues steps on a GPU, but the device is cpu; give --device cuda as "
            "well, or leave it out");
  EXPECT_EQ(resolve({.flags = {given("train.sync_every", "10"), given("train.device", "cuda")}})
                .train.sync_every,
            10);
}

TEST(TrainConfig, GraphsAreRefusedForStepsThatCannotBeRepeated) {
  const auto resolved = [](const char* nproc, std::vector<ConfigAssignment> flags) {
    flags.push_back(given("train.cuda_graphs", "true"));
    flags.push_back(given("train.device", "cuda"));
    flags.push_back(given("parallel.nproc", nproc));
    return ConfigLayers{.flags = std::move(flags)};
  };
  EXPECT_EQ(refusal(resolved("2", {})),
            "--cuda-graphs is for one rank, but --nproc is 2; give --nproc 1, or leave it out");
  EXPECT_EQ(refusal(resolved("1", {given("parallel.recompute", "full")})),
            "--cuda-graphs cannot record --recompute full; leave one of them out");
  EXPECT_TRUE(contains(refusal(resolved("1", {given("data.documents", "true")})),
                       "documents end elsewhere in each batch"));
  EXPECT_TRUE(resolve(resolved("1", {})).train.cuda_graphs);
}

TEST(TrainConfig, CapacitiesThatExpertsCannotHaveAreRefused) {
  const auto refused = [](const char* preset, const char* key, const char* value) {
    return refusal({.flags = {given("model.preset", preset), given("parallel.dp", "1"),
                              given(std::string("train.") + key, value)}});
  };
  EXPECT_EQ(refused("tiny", "expert_capacity_factor", "1.5"),
            "train.expert_capacity_factor=1.5 is for models with experts, but this one has none; "
            "leave it out, or choose such a model, e.g. --preset tiny-moe");
  EXPECT_TRUE(contains(refused("tiny", "balancing", "layer"), "train.balancing=layer is for"));
  EXPECT_TRUE(contains(refused("tiny", "z_loss_coef", "0.001"), "train.z_loss_coef=0.001 is for"));
  EXPECT_EQ(refused("tiny-moe", "token_drop_policy", "position"),
            "train.token_drop_policy=position needs train.expert_capacity_factor above 0, e.g. "
            "1.25; give both, or leave it out");
  const auto wrong = [](const char* key, const char* value) {
    return message_of<ConfigError>([&] { resolve({.flags = {given(key, value)}}); });
  };
  for (const char* const value : {"-1", "nan", "inf", "1e9", "much"}) {
    EXPECT_TRUE(contains(wrong("train.expert_capacity_factor", value),
                         "it must be a number from 0 to 65,536"))
        << value;
  }
  EXPECT_TRUE(contains(wrong("train.token_drop_policy", "last"), "choose probs or position"));
  EXPECT_EQ(refusal({.flags = {given("model.preset", "tiny-moe"), given("parallel.dp", "1"),
                               given("model.num_experts_per_tok", "9")}}),
            "num_experts_per_tok=9, but a token can visit from 1 to num_experts=8 experts");
}

TEST(TrainConfig, DegreesThatDoNotFitTogetherAreRefused) {
  EXPECT_EQ(refusal({.flags = {given("model.preset", "tiny-moe"), given("parallel.ep", "2")}}),
            "ep 2 × etp 1 = 2 does not divide dp·cp·tp = 1; choose divisors of 1");
  EXPECT_EQ(refusal({.flags = {given("parallel.dp_replicate", "2")}}),
            "dp-replicate is 2, which needs dp-type hsdp or zero1, but it is ddp; leave one out");
}

TEST(TrainConfig, SettingsOfShardsNeedShards) {
  const auto sharded = [](std::vector<ConfigAssignment> more) {
    std::vector<ConfigAssignment> all{given("parallel.dp", "4"), given("parallel.dp_type", "fsdp")};
    all.insert(all.end(), more.begin(), more.end());
    return ConfigLayers{.flags = all};
  };
  const std::pair<const char*, const char*> settings[] = {{"parallel.reshard", "smaller"},
                                                          {"parallel.reduce", "each"},
                                                          {"parallel.offload", "true"},
                                                          {"parallel.compute_dtype", "bf16"}};
  for (const auto& [key, value] : settings) {
    EXPECT_NO_THROW(resolve(sharded({given(key, value)}))) << key;
    EXPECT_TRUE(
        contains(refusal({.flags = {given("parallel.dp", "4"), given(key, value)}}),
                 std::string(key) + "=" + value + " needs shards, but --dp 4 --dp-type ddp"))
        << key;
  }
  EXPECT_NO_THROW(resolve(sharded(
      {given("parallel.dp", "1"), given("parallel.cp", "2"), given("parallel.offload", "true")})))
      << "the ranks of a sequence hold shards";
  EXPECT_TRUE(contains(
      refusal(sharded({given("parallel.reshard", "smaller"), given("parallel.reshard_size", "3")})),
      "parallel.reshard_size=3 does not divide the 4 shards"));
  EXPECT_TRUE(contains(refusal(sharded({given("parallel.pp", "2"), given("parallel.reduce", "each"),
                                        given("parallel.dp", "2")})),
                       "reduces gradients once per step"));
}

TEST(TrainConfig, TensorDegreesThatDoNotFitAreRefused) {
  const auto with = [](std::vector<ConfigAssignment> more) {
    std::vector<ConfigAssignment> all{given("parallel.tp", "2"), given("data.seq", "64")};
    all.insert(all.end(), more.begin(), more.end());
    return ConfigLayers{.flags = all};
  };
  EXPECT_EQ(resolve(with({})).parallel.nproc, 2);
  EXPECT_TRUE(contains(refusal(with({given("data.seq", "63")})),
                       "data.seq=63 is not a multiple of --tp 2"));
  EXPECT_TRUE(contains(refusal(with({given("data.seq", "63")})), "nearest legal degrees: 1, 3"));
  EXPECT_TRUE(contains(refusal(with({given("data.seq", "1")})), "nearest legal degrees: 1"));
  EXPECT_NO_THROW(resolve(with({given("data.seq", "63"), given("parallel.sp", "false")})));
  EXPECT_TRUE(contains(refusal(with({given("model.num_attention_heads", "3"),
                                     given("model.num_key_value_heads", "3")})),
                       "tp"));
  EXPECT_TRUE(contains(refusal({.flags = {given("parallel.tp_async", "true")}}),
                       "--tp-async needs --tp above 1"));
}

TEST(TrainConfig, ContextParallelismMustFitTheSequenceAndTheHeads) {
  const auto split = [](std::vector<ConfigAssignment> more) {
    more.push_back(given("parallel.cp", "4"));
    return refusal({.flags = more});
  };
  EXPECT_TRUE(contains(split({given("data.seq", "100")}), "multiple of"));
  EXPECT_TRUE(
      contains(split({given("data.seq", "8"), given("parallel.tp", "4")}), "--cp 4 × --tp 4"));
  EXPECT_TRUE(
      contains(split({given("parallel.cp_type", "ulysses"), given("model.num_attention_heads", "6"),
                      given("model.head_dim", "8"), given("model.num_key_value_heads", "3")}),
               "6 query heads"));
  EXPECT_TRUE(contains(
      split({given("parallel.cp_type", "hierarchical"), given("parallel.cp_sizes", "2,3")}),
      "2·3"));
  EXPECT_TRUE(contains(split({given("parallel.cp_sizes", "1.5,2")}), "whole numbers"));
  EXPECT_TRUE(contains(refusal({.flags = {given("parallel.cp_type", "ulysses")}}), "--cp above 1"));
}

TEST(TrainConfig, TheEndOfDocumentsNeedsDocuments) {
  EXPECT_TRUE(contains(refusal({.flags = {given("data.document_end", "3")}}), "data.documents"));
}

TEST(ConfigFields, NamesAndFlagsAreUsedOnce) {
  std::vector<std::string> names;
  for (const ConfigField& field : config_fields()) {
    names.push_back(field.name());
    if (!field.flag.empty()) names.emplace_back(field.flag);
    if (!field.off_flag.empty()) names.emplace_back(field.off_flag);
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(ConfigLayers, NumbersBeyondTheirRangeAreNamedWithIt) {
  const auto refused = [](const std::string& name, const std::string& text) {
    return refusal({.flags = {given(name, text)}});
  };
  EXPECT_EQ(refused("train.steps", "9223372036854775807"),
            "--train.steps: train.steps is '9223372036854775807'; it must be a whole number from 1 "
            "to 1,000,000,000,000");
  EXPECT_EQ(refused("train.threads", "1000000000"),
            "--train.threads: train.threads is '1000000000'; it must be a whole number from 0 to "
            "1,024");
  EXPECT_EQ(refused("train.threads", "-1"),
            "--train.threads: train.threads is '-1'; it must be a whole number from 0 to 1,024");
  for (const char* name : {"data.seq", "data.batch", "optim.accumulate", "optim.warmup",
                           "optim.decay", "train.validate_every", "train.validate_batches",
                           "run.record_every", "parallel.dp_replicate", "parallel.microbatches"}) {
    EXPECT_TRUE(contains(refused(name, "9223372036854775807"), "it must be a whole number from "))
        << name;
  }
}

TEST(ConfigLayers, TheAverageOfTheWeightsMustBeOfUse) {
  EXPECT_TRUE(contains(refusal({.flags = {given("optim.ema_decay", "0.9")}}),
                       "nothing would use the average"));
  EXPECT_TRUE(
      contains(refusal({.flags = {given("optim.ema_decay", "1"), given("run.save_every", "5")}}),
               "choose less than 1"));
  EXPECT_TRUE(contains(refusal({.flags = {given("train.validate_ema", "true")}}),
                       "--validate-ema needs --ema-decay"));
  EXPECT_EQ(resolve({.flags = {given("optim.ema_decay", "0.9"), given("run.save_every", "5")}})
                .optim.ema_decay,
            0.9);
}

TEST(ConfigLayers, ARollbackNeedsCheckpointsAndASpikeAFactor) {
  EXPECT_TRUE(contains(refusal({.flags = {given("optim.non_finite", "rollback")}}),
                       "give --save-every as well"));
  EXPECT_TRUE(contains(refusal({.flags = {given("optim.spike", "0.5")}}), "choose more than 1"));
}

TEST(ConfigLayers, TracedStepsAreOneOrARange) {
  EXPECT_EQ(parse_steps("7"), (Span{7, 8}));
  EXPECT_EQ(parse_steps("10-12"), (Span{10, 13}));
  for (const char* text : {"", "-", "1-", "-1", "3-2", "a", "1-2-3", "99999999999999999"}) {
    EXPECT_THROW(parse_steps(text), ConfigError) << text;
  }
  EXPECT_TRUE(contains(refusal({.flags = {given("run.trace_steps", "x")}}), "names no steps"));
}

}  // namespace
}  // namespace tessera
