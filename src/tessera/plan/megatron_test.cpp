#include "tessera/plan/megatron.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

const GroupKind& kind(const MegatronGroups& groups, std::string_view name) {
  return *std::ranges::find(groups.kinds, name, &GroupKind::name);
}

TEST(MegatronGroups, CountsAsTheirConstructorCallsSay) {
  const auto groups = megatron_groups({.world = 16384, .tp = 8, .pp = 8, .cp = 2, .ep = 8});
  int64_t count = 0;
  for (const GroupKind& kind : groups.kinds) count += kind.count();
  EXPECT_EQ(count, 22777);
}

TEST(MegatronGroups, KnownGroupsOfSixteenRanks) {
  const auto groups = megatron_groups({.world = 16, .tp = 2, .pp = 4});
  EXPECT_EQ(kind(groups, "TENSOR_MODEL_PARALLEL_GROUP").group(3), to_ranks({6, 7}));
  EXPECT_EQ(kind(groups, "PIPELINE_MODEL_PARALLEL_GROUP").group(1), to_ranks({1, 5, 9, 13}));
  EXPECT_EQ(kind(groups, "EMBEDDING_GROUP").group(1), to_ranks({1, 13}));
  EXPECT_EQ(kind(groups, "DATA_PARALLEL_GROUP").group(0), to_ranks({0, 2}));
  EXPECT_EQ(kind(groups, "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP").size(), 16);
}

TEST(MegatronGroups, ExpertsHaveALayoutOfTheirOwn) {
  const auto groups = megatron_groups({.world = 16, .tp = 4, .ep = 4, .etp = 1});
  EXPECT_EQ(kind(groups, "EXPERT_MODEL_PARALLEL_GROUP").group(0), to_ranks({0, 1, 2, 3}));
  EXPECT_EQ(kind(groups, "EXPERT_TENSOR_PARALLEL_GROUP").size(), 1);
  EXPECT_EQ(kind(groups, "EXPERT_DATA_PARALLEL_GROUP").group(0), to_ranks({0, 4, 8, 12}));
}

TEST(MegatronGroupsErrors, NameTheValueTheRuleAndTheFix) {
  EXPECT_EQ(message_of<ConfigError>([] { megatron_groups({.world = 12, .tp = 2, .pp = 4}); }),
            "world size 12 is not divisible by tp·cp·pp = 8 (tp=2, cp=1, pp=4); nearest world "
            "sizes: 8, 16");
  EXPECT_EQ(message_of<ConfigError>([] { megatron_groups({.world = 4, .tp = 8}); }),
            "world size 4 is not divisible by tp·cp·pp = 8 (tp=8, cp=1, pp=1); nearest world "
            "sizes: 8");
  EXPECT_EQ(message_of<ConfigError>([] { megatron_groups({.world = 0}); }),
            "world size 0 is not positive; a world has at least 1 rank");
  EXPECT_EQ(message_of<ConfigError>([] { megatron_groups({.world = 8, .tp = -2}); }),
            "size -2 of tp is not positive; sizes start at 1");
}

TEST(MegatronGroupsErrors, RefuseLayoutsThatDisagreeOnPipelines) {
  EXPECT_THROW(megatron_groups({.world = 16, .tp = 2, .pp = 2, .ep = 2, .order = "tp-pp-cp-ep-dp"}),
               ConfigError)
      << "the data-parallel sizes differ and pp is not last";
  EXPECT_THROW(
      megatron_groups({.world = 16, .tp = 4, .pp = 2, .ep = 2, .etp = 2, .order = "tp-pp-ep-dp"}),
      ConfigError)
      << "dp is 2 in both, but the pipelines have other strides";
  EXPECT_NO_THROW(megatron_groups({.world = 16, .tp = 2, .pp = 2, .order = "tp-pp-dp"}));
}

TEST(MegatronGroupsErrors, RefuseOverflow) {
  EXPECT_THROW(megatron_groups({.world = 8, .tp = int64_t{1} << 40, .pp = int64_t{1} << 40}),
               ConfigError);
}

}  // namespace
}  // namespace tessera
