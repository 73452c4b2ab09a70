#include "tessera/plan/olmo/config.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/throws.h"

namespace tessera::olmo {
namespace {

using Stages = std::vector<int64_t>;
using testkit::message_of;

template <class Enum>
void round_trip(const std::vector<std::pair<Enum, std::string>>& all) {
  for (const auto& [value, text] : all) {
    EXPECT_EQ(concat(value), text);
    EXPECT_EQ(from_string<Enum>(text), value);
  }
}

TEST(OlmoConfig, ValuesHaveThePagesTexts) {
  using Dim = MeshDimName;
  using Schedule = PipelineScheduleType;
  round_trip<DataParallelType>({{DataParallelType::fsdp, "fsdp"},
                                {DataParallelType::hsdp, "hsdp"},
                                {DataParallelType::ddp, "ddp"}});
  round_trip<DType>({{DType::float32, "float32"},
                     {DType::bfloat16, "bfloat16"},
                     {DType::float16, "float16"},
                     {DType::float8_e4m3fn, "float8_e4m3fn"},
                     {DType::float8_e5m2, "float8_e5m2"}});
  round_trip<Dim>({{Dim::dp, "dp"},
                   {Dim::dp_replicate, "dp_replicate"},
                   {Dim::dp_shard, "dp_shard"},
                   {Dim::tp, "tp"},
                   {Dim::cp, "cp"},
                   {Dim::pp, "pp"},
                   {Dim::ep, "ep"},
                   {Dim::ep_replicate, "ep_replicate"},
                   {Dim::ep_shard, "ep_shard"},
                   {Dim::dp_ep, "dp_ep"},
                   {Dim::dp_cp, "dp_cp"}});
  round_trip<DPMeshDimName>(
      {{DPMeshDimName::replicate, "dp_replicate"}, {DPMeshDimName::shard, "dp_shard"}});
  round_trip<Schedule>({{Schedule::single_1F1B, "1F1B"},
                        {Schedule::gpipe, "GPipe"},
                        {Schedule::interleaved_1F1B, "Interleaved1F1B"},
                        {Schedule::looped_bfs, "LoopedBFS"},
                        {Schedule::interleaved_zero_bubble, "InterleavedZeroBubble"},
                        {Schedule::zbv_zero_bubble, "ZBVZeroBubble"}});
  round_trip<PipelineSplitStyle>(
      {{PipelineSplitStyle::loop, "loop"}, {PipelineSplitStyle::v, "v"}});
}

TEST(OlmoConfig, UnknownTextsNameTheNearest) {
  const std::string message =
      message_of<ConfigError>([] { from_string<PipelineScheduleType>("Interleaved1f1b"); });
  EXPECT_NE(message.find("did you mean 'Interleaved1F1B'?"), std::string::npos) << message;
  EXPECT_THROW(from_string<DataParallelType>("FSDP"), ConfigError);
}

TEST(OlmoConfig, ReplicasAndShardsFollowFromEachOther) {
  using Degrees = ReplicateAndShardDegree;
  const auto degrees = [](const DataParallelConfig& config, int64_t ranks, int64_t nodes = 1) {
    return config.get_replicate_and_shard_degree(ranks, nodes);
  };
  EXPECT_EQ(degrees({}, 16, 2), (Degrees{2, 8}));
  EXPECT_EQ(degrees({.num_replicas = 4}, 16, 7), (Degrees{4, 4}));
  EXPECT_EQ(degrees({.shard_degree = 8}, 16, 7), (Degrees{2, 8}));
  EXPECT_EQ(degrees({.num_replicas = 2, .shard_degree = 8}, 16), (Degrees{2, 8}));
  EXPECT_THROW(degrees({}, 6, 4), ConfigError) << "nodes that do not divide";
  EXPECT_THROW(degrees({}, 2, 4), ConfigError) << "more nodes than ranks";
  EXPECT_THROW(degrees({}, 8, 0), ConfigError);
  EXPECT_THROW(degrees({.num_replicas = 0}, 8), ConfigError);
  EXPECT_THROW(degrees({.shard_degree = -2}, 8), ConfigError);
  EXPECT_THROW(degrees({.num_replicas = 4, .shard_degree = 4}, 8), ConfigError) << "too many";
  const std::string message =
      message_of<ConfigError>([&] { degrees({.num_replicas = 2, .shard_degree = 2}, 8); });
  EXPECT_NE(message.find("choose 4 shards"), std::string::npos) << message;
}

TEST(OlmoConfig, SchedulesKnowTheirStages) {
  EXPECT_TRUE(is_single_stage(PipelineScheduleType::gpipe));
  EXPECT_TRUE(is_multi_stage(PipelineScheduleType::looped_bfs));
  EXPECT_EQ(default_style(PipelineScheduleType::zbv_zero_bubble), PipelineSplitStyle::v);
  const PipelineParallelConfig defaults;
  EXPECT_EQ(defaults.schedule, PipelineScheduleType::interleaved_1F1B);
  EXPECT_EQ(defaults.infer_style(), PipelineSplitStyle::loop);
}

TEST(OlmoConfig, StagesGoAroundOrDownAndUp) {
  const PipelineParallelConfig loop{.degree = 4};
  EXPECT_EQ(loop.stage_ids_this_rank(1, 12), (Stages{1, 5, 9}));
  EXPECT_EQ(loop.rank_completion_order(), (Stages{3, 2, 1, 0}));
  EXPECT_EQ(loop.final_stage_rank(), 3);
  const PipelineParallelConfig v{.degree = 4, .style = PipelineSplitStyle::v};
  EXPECT_EQ(v.stage_ids_this_rank(1, 8), (Stages{1, 6}));
  EXPECT_EQ(v.rank_completion_order(), (Stages{0, 1, 2, 3}));
  EXPECT_EQ(v.final_stage_rank(), 0);
}

// The rank that finishes first is the one with the last stage.
TEST(OlmoConfig, TheFinalStageIsWhereItSays) {
  for (const auto style : {PipelineSplitStyle::loop, PipelineSplitStyle::v}) {
    const PipelineParallelConfig config{.degree = 3, .style = style};
    EXPECT_EQ(config.stage_ids_this_rank(config.final_stage_rank(), 6).back(), 5);
    EXPECT_EQ(config.rank_completion_order().front(), config.final_stage_rank());
  }
}

TEST(OlmoConfig, StagesThatCannotBeSharedOutAreRefused) {
  const PipelineParallelConfig loop{.degree = 4};
  EXPECT_THROW(loop.stage_ids_this_rank(0, 6), ConfigError);
  EXPECT_THROW(loop.stage_ids_this_rank(0, 0), ConfigError);
  EXPECT_THROW(loop.stage_ids_this_rank(4, 8), ConfigError);
  EXPECT_THROW(loop.stage_ids_this_rank(-1, 8), ConfigError);
  const PipelineParallelConfig v{.degree = 4, .schedule = PipelineScheduleType::zbv_zero_bubble};
  EXPECT_THROW(v.stage_ids_this_rank(0, 4), ConfigError);
  EXPECT_THROW(v.stage_ids_this_rank(0, 12), ConfigError);
  EXPECT_THROW(PipelineParallelConfig{.degree = 0}.stage_ids_this_rank(0, 4), ConfigError);
}

// OLMo's test_generate_pipeline_split_points.
TEST(OlmoConfig, SplitPointsOfThePeersTest) {
  const auto points = [](int64_t degree, PipelineScheduleType schedule) {
    return TransformerPipelineParallelConfig{{.degree = degree, .schedule = schedule}}
        .get_split_points(4);
  };
  EXPECT_EQ(points(2, PipelineScheduleType::single_1F1B), Stages{2});
  EXPECT_EQ(points(4, PipelineScheduleType::single_1F1B), (Stages{1, 2, 3}));
  EXPECT_EQ(points(2, PipelineScheduleType::interleaved_1F1B), (Stages{1, 2, 3}));
}

TEST(OlmoConfig, GivenSplitPointsAreTaken) {
  const TransformerPipelineParallelConfig config{{.degree = 3}, Stages{0, 2}};
  EXPECT_EQ(config.get_split_points(4), (Stages{0, 2}));
  EXPECT_THROW(config.get_split_points(1), ConfigError);
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(TransformerPipelineParallelConfig{{.degree = huge}}.get_split_points(4),
               ConfigError);
}

}  // namespace
}  // namespace tessera::olmo
