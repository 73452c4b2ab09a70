#include "tessera/plan/translate.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

DialectPlan plan_of(std::string_view dialect, int64_t world, const FlagValues& flags) {
  return plan_in(find_dialect(dialect), {.world = world, .flags = flags});
}

Translation translated(std::string_view from, int64_t world, const FlagValues& flags,
                       std::string_view to) {
  return translate(plan_of(from, world, flags), find_dialect(to));
}

FlagValues flags_of(std::string_view from, int64_t world, const FlagValues& flags,
                    std::string_view to) {
  const Translation answer = translated(from, world, flags, to);
  EXPECT_TRUE(answer.flags) << answer.why;
  return answer.flags.value_or(FlagValues{});
}

TEST(Translate, DenseLayoutsCanBeSaidInAllDialects) {
  const FlagValues megatron{{"--tp", "2"}, {"--cp", "2"}, {"--pp", "4"}};
  EXPECT_EQ(flags_of("megatron", 64, megatron, "olmo"),
            (FlagValues{{"--tp", "2"}, {"--cp", "2"}, {"--pp", "4"}}));
  EXPECT_EQ(flags_of("megatron", 64, megatron, "nemo"),
            (FlagValues{{"--tp-size", "2"}, {"--pp-size", "4"}, {"--cp-size", "2"}}));
}

TEST(Translate, TheTrainersLayoutCanBeSaidInAllDialects) {
  const FlagValues hsdp{
      {"--dp-type", "hsdp"}, {"--dp-replicate", "2"}, {"--tp", "2"}, {"--pp", "4"}};
  const FlagValues megatron{{"--tensor-model-parallel-size", "2"},
                            {"--pipeline-model-parallel-size", "4"},
                            {"--num-distributed-optimizer-instances", "2"}};
  const FlagValues olmo{
      {"--dp-type", "hsdp"}, {"--num-replicas", "2"}, {"--tp", "2"}, {"--pp", "4"}};
  const FlagValues nemo{{"--tp-size", "2"}, {"--pp-size", "4"}, {"--dp-replicate-size", "2"}};
  EXPECT_EQ(flags_of("tessera", 64, hsdp, "megatron"), megatron);
  EXPECT_EQ(flags_of("tessera", 64, hsdp, "olmo"), olmo);
  EXPECT_EQ(flags_of("tessera", 64, hsdp, "nemo"), nemo);
  EXPECT_EQ(flags_of("megatron", 64, megatron, "tessera"), hsdp);
  EXPECT_EQ(flags_of("olmo", 64, olmo, "tessera"), hsdp);
  EXPECT_EQ(flags_of("nemo", 64, nemo, "tessera"), hsdp);
}

TEST(Translate, DataParallelismKeepsItsTypeInTheTrainer) {
  EXPECT_EQ(flags_of("olmo", 8, {{"--dp-type", "ddp"}}, "tessera"), FlagValues{});
  EXPECT_EQ(flags_of("olmo", 8, {}, "tessera"), (FlagValues{{"--dp-type", "fsdp"}}));
  EXPECT_EQ(flags_of("megatron", 8, {}, "tessera"), FlagValues{});
  EXPECT_EQ(flags_of("tessera", 8, {}, "olmo"), (FlagValues{{"--dp-type", "ddp"}}));
  EXPECT_EQ(flags_of("tessera", 8, {}, "nemo"), (FlagValues{{"--strategy", "ddp"}}));
}

TEST(Translate, TheTrainersExperts) {
  const FlagValues sliced{{"--tp", "2"}, {"--ep", "4"}, {"--etp", "2"}};
  EXPECT_EQ(flags_of("megatron", 16, {{"--tp", "2"}, {"--ep", "4"}}, "tessera"), sliced);
  EXPECT_EQ(flags_of("tessera", 16, sliced, "nemo"),
            (FlagValues{{"--tp-size", "2"}, {"--ep-size", "4"}}));
  EXPECT_EQ(flags_of("tessera", 16, {{"--tp", "2"}, {"--ep", "4"}}, "nemo"),
            (FlagValues{{"--tp-size", "2"}, {"--ep-size", "4"}, {"--moe-mesh", "today"}}));
  EXPECT_EQ(flags_of("tessera", 16, {{"--etp", "2"}}, "megatron"),
            (FlagValues{{"--expert-tensor-parallel-size", "2"}}));
}

TEST(Translate, SlicesOfAnExpertAreNotWholeExperts) {
  // The expert groups are equal: 0 2 4 6, and 1 3 5 7.
  const FlagValues olmo{
      {"--dp-type", "hsdp"}, {"--shard-degree", "4"}, {"--cp", "2"}, {"--ep", "4"}};
  const FlagValues sliced{{"--cp", "2"}, {"--ep", "4"}, {"--etp", "2"}};
  const Translation to_olmo = translated("tessera", 8, sliced, "olmo");
  ASSERT_TRUE(to_olmo.difference);
  EXPECT_EQ(*to_olmo.difference, (LayoutDifference{"etp", to_ranks({0, 1}), to_ranks({0})}));
  const Translation from_olmo = translated("olmo", 8, olmo, "tessera");
  ASSERT_TRUE(from_olmo.difference);
  EXPECT_EQ(*from_olmo.difference,
            (LayoutDifference{"ep", to_ranks({0, 2, 4, 6}), to_ranks({0, 1, 2, 3})}));
}

TEST(Translate, TheTrainersAxesHaveOneOrder) {
  const Translation answer =
      translated("megatron", 8, {{"--tp", "2"}, {"--order", "dp-tp-cp-ep-pp"}}, "tessera");
  EXPECT_FALSE(answer.flags);
  ASSERT_TRUE(answer.difference);
  EXPECT_EQ(*answer.difference,
            (LayoutDifference{"dp", to_ranks({0, 1, 2, 3}), to_ranks({0, 2, 4, 6})}));
  EXPECT_TRUE(answer.why.starts_with("its axes are pp, dp, cp and tp, the last one fastest"));
}

TEST(Translate, ReplicasComeAlong) {
  const FlagValues olmo{{"--dp-type", "hsdp"}, {"--num-replicas", "4"}, {"--tp", "2"}};
  EXPECT_EQ(flags_of("olmo", 64, olmo, "nemo"),
            (FlagValues{{"--tp-size", "2"}, {"--dp-replicate-size", "4"}}));
  EXPECT_EQ(flags_of("olmo", 64, olmo, "megatron"),
            (FlagValues{{"--tensor-model-parallel-size", "2"},
                        {"--num-distributed-optimizer-instances", "4"}}));
}

TEST(Translate, WholeModelsStayWhole) {
  EXPECT_EQ(flags_of("olmo", 8, {{"--dp-type", "ddp"}}, "nemo"),
            (FlagValues{{"--strategy", "ddp"}}));
  EXPECT_EQ(flags_of("nemo", 8, {{"--strategy", "ddp"}}, "olmo"),
            (FlagValues{{"--dp-type", "ddp"}}));
}

TEST(Translate, ExpertsLieWhereHsdpShards) {
  EXPECT_EQ(flags_of("megatron", 16, {{"--ep", "4"}}, "olmo"),
            (FlagValues{{"--dp-type", "hsdp"}, {"--shard-degree", "4"}, {"--ep", "4"}}));
}

TEST(Translate, MegatronFindsAnOrder) {
  const FlagValues today{{"--tp-size", "2"}, {"--ep-size", "4"}, {"--moe-mesh", "today"}};
  EXPECT_EQ(flags_of("nemo", 16, today, "megatron"),
            (FlagValues{{"--tensor-model-parallel-size", "2"},
                        {"--expert-model-parallel-size", "4"},
                        {"--expert-tensor-parallel-size", "1"}}));
}

TEST(Translate, NamesTheFirstGroupThatDiffers) {
  const Translation answer =
      translated("megatron", 8, {{"--tp", "2"}, {"--order", "dp-tp-cp-ep-pp"}}, "olmo");
  EXPECT_FALSE(answer.flags);
  ASSERT_TRUE(answer.difference);
  EXPECT_EQ(answer.difference->kind, "dp");
  EXPECT_EQ(answer.difference->from, to_ranks({0, 1, 2, 3}));
  EXPECT_EQ(answer.difference->to, to_ranks({0, 2, 4, 6}));
  EXPECT_EQ(answer.refusal, "");
  EXPECT_EQ(answer.nearest, (FlagValues{{"--tp", "2"}}));
}

TEST(Translate, ARefusalComesWithTheGroupThatIsMissing) {
  const Translation answer = translated("megatron", 8, {{"--tp", "2"}, {"--ep", "2"}}, "olmo");
  EXPECT_FALSE(answer.flags);
  EXPECT_NE(answer.refusal.find("exclude each other"), std::string::npos);
  ASSERT_TRUE(answer.difference);
  EXPECT_EQ(answer.difference->kind, "ep");
  EXPECT_EQ(answer.difference->from, to_ranks({0, 2}));
  EXPECT_EQ(answer.difference->to, to_ranks({0}));
}

TEST(Translate, RefusesWorldsTooLargeToLookAt) {
  EXPECT_NE(testkit::message_of<ConfigError>([] {
              translated("megatron", 65'537, {}, "olmo");
            }).find("choose at most 65536"),
            std::string::npos);
}

TEST(FirstDifference, TheOrderInAGroupDoesNotCount) {
  const DialectPlan layout = plan_of("olmo", 8, {{"--tp", "2"}});
  EXPECT_EQ(first_difference(layout, layout), std::nullopt);
  const DialectPlan smaller = plan_of("olmo", 4, {});
  EXPECT_THROW(first_difference(layout, smaller), ConfigError);
}

}  // namespace
}  // namespace tessera
