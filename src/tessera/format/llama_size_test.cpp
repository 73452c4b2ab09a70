#include "tessera/format/llama_size.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/format/llama_presets.h"

namespace tessera {
namespace {

// As counted by the model cards and by transformers.
TEST(LlamaSize, CountsKnownModels) {
  EXPECT_EQ(parameter_count(LlamaConfig{}), 6'738'415'616);  // Llama 2 7B has the default shape.
  EXPECT_EQ(parameter_count(llama_preset("llama3-8b")), 8'030'261'248);
  EXPECT_EQ(parameter_count(llama_preset("llama3-70b")), 70'553'706'496);
  EXPECT_EQ(parameter_count(llama_preset("mixtral-8x7b")), 46'702'792'704);
  EXPECT_EQ(expert_parameter_count(llama_preset("mixtral-8x7b")), 32 * 8 * 3 * 4096 * 14336LL);
  EXPECT_EQ(expert_parameter_count(LlamaConfig{}), 0);
}

TEST(LlamaSize, TiedHeadIsCountedOnce) {
  LlamaConfig config = llama_preset("llama3-8b");
  config.tie_word_embeddings = true;
  EXPECT_EQ(parameter_count(config), 8'030'261'248 - 128256 * 4096LL);
}

TEST(LlamaSize, FlopsGrowWithThePositions) {
  const LlamaConfig config = llama_preset("llama3-8b");
  const int64_t matrices =
      8'030'261'248 - 128256 * 4096LL - 65 * 4096LL;  // Without look-up, norms.
  EXPECT_EQ(flops_per_token(config, 8192), 6 * matrices + 12 * 32 * 32 * 128 * 8192LL);
  EXPECT_EQ(flops_per_token(config, 2) - flops_per_token(config, 1), 12 * 32 * 32 * 128LL);
}

TEST(LlamaSize, FlopsAreThoseOfTheExpertsThatATokenVisits) {
  LlamaConfig config = llama_preset("mixtral-8x7b");
  const int64_t two = flops_per_token(config, 1);
  config.num_experts_per_tok = 3;
  EXPECT_EQ(flops_per_token(config, 1) - two, 6 * 32 * 3 * 4096 * 14336LL);
}

TEST(LlamaSize, SharedExpertsCountForEveryToken) {
  LlamaConfig config = llama_preset("tiny-qwen2-moe");
  const int64_t parameters = parameter_count(config);
  const int64_t flops = flops_per_token(config, 1);
  config.shared_expert_intermediate_size += 10;
  EXPECT_EQ(parameter_count(config) - parameters, 4 * 10 * 3 * 192);
  EXPECT_EQ(flops_per_token(config, 1) - flops, 6 * 4 * 10 * 3 * 192);
  EXPECT_EQ(expert_parameter_count(config), 4 * 8 * 3 * 192 * 128);
  // Qwen1.5-MoE-A2.7B has the defaults of its family.
  EXPECT_EQ(parameter_count(parse_llama_config(R"({"model_type": "qwen2_moe"})", "config.json")),
            14'315'784'192);
}

TEST(LlamaSize, RefusesWhatIsNoNumber) {
  LlamaConfig config = llama_preset("llama3-8b");
  config.hidden_size = int64_t{1} << 40;
  config.vocab_size = int64_t{1} << 40;
  EXPECT_THROW(parameter_count(config), ConfigError);
  EXPECT_THROW(flops_per_token(llama_preset("llama3-8b"), 0), ConfigError);
}

}  // namespace
}  // namespace tessera
