#include "tessera/plan/olmo/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera::olmo {
namespace {

using nlohmann::json;
using testkit::message_of;

template <class Config>
void round_trip(const Config& config) {
  const json written = config;
  EXPECT_EQ(written.get<Config>(), config) << written;
}

TEST(OlmoJson, WhatIsWrittenIsReadBack) {
  round_trip(DataParallelConfig{.name = DataParallelType::hsdp,
                                .param_dtype = DType::bfloat16,
                                .num_replicas = 2,
                                .shard_degree = 4});
  round_trip(TensorParallelConfig{.degree = 8, .enable_async = true});
  round_trip(ContextParallelConfig{.degree = 2});
  round_trip(TransformerContextParallelConfig::llama3(4, 2));
  round_trip(TransformerContextParallelConfig::ulysses(2));
  round_trip(ExpertParallelConfig{.degree = 4});
  round_trip(PipelineParallelConfig{.degree = 2, .style = PipelineSplitStyle::v});
  round_trip(TransformerPipelineParallelConfig{{.degree = 2}, std::vector<int64_t>{1, 3}});
  round_trip(WorldMeshConfig{});
  round_trip(WorldMeshConfig{.dp = DataParallelConfig{},
                             .tp = TensorParallelConfig{.degree = 2},
                             .pp = PipelineParallelConfig{.degree = 2}});
}

TEST(OlmoJson, HasThePagesFields) {
  EXPECT_EQ(json(DataParallelConfig{}), json::parse(R"({"name": "fsdp", "param_dtype": null,
      "reduce_dtype": "float32", "num_replicas": null, "shard_degree": null})"));
  EXPECT_EQ(json(PipelineParallelConfig{.degree = 4}),
            json::parse(R"({"degree": 4, "schedule": "Interleaved1F1B", "style": null})"));
}

TEST(OlmoJson, NullAndNothingAreTheDefault) {
  const auto config = json::parse(R"({"name": "ddp", "reduce_dtype": null})");
  EXPECT_EQ(config.get<DataParallelConfig>(), DataParallelConfig{.name = DataParallelType::ddp});
}

TEST(OlmoJson, RefusalsNameFieldAndFix) {
  const auto refused = [](const char* text) {
    return message_of<ConfigError>([&] { json::parse(text).get<WorldMeshConfig>(); });
  };
  EXPECT_EQ(refused(R"({"dp": {"name": "fsdp", "num_replica": 2}})"),
            "WorldMeshConfig.dp has no field 'num_replica'; did you mean 'num_replicas'?");
  EXPECT_EQ(refused(R"({"tp": {"degree": 2, "style": "v"}})"),
            "WorldMeshConfig.tp has no field 'style'; it has degree, enable_async");
  EXPECT_EQ(refused(R"({"tp": {}})"), "WorldMeshConfig.tp.degree is missing; give it a value");
  for (const char* const text :
       {R"({"tp": 2})", R"({"tp": {"degree": "2"}})", R"({"tp": {"degree": 2.5}})",
        R"({"tp": {"degree": true}})", R"({"tp": {"degree": 18446744073709551615}})",
        R"({"tp": {"degree": 2, "enable_async": 1}})", R"({"dp": {"name": 3}})",
        R"({"dp": {"name": "zero"}})", R"({"sp": null})", R"([])"}) {
    EXPECT_FALSE(refused(text).empty()) << text;
  }
  EXPECT_THROW(json::parse(R"({"degree": 1, "split_points": [1, "2"]})")
                   .get<TransformerPipelineParallelConfig>(),
               ConfigError);
}

}  // namespace
}  // namespace tessera::olmo
