// Texts written with a cache, compared with whole forward passes over everything so far.
#include "tessera/generate/generate.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/generate/language_model.h"
#include "tessera/model/llama.h"

namespace tessera {
namespace {

constexpr uint64_t kSeed = 5;

LlamaConfig small() {
  LlamaConfig config;
  config.vocab_size = 50;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 64;
  config.initializer_range = 0.5;  // So that tokens follow from what was before them.
  return config;
}

LanguageModel make(const LlamaConfig& config, const World& world) {
  return {config, {.dtype = at::kDouble}, world, [&](const Parameters& parameters) {
            fill_llama(parameters, config, kSeed);
          }};
}

// The likeliest tokens, each by a pass over all before it.
TokenIds without_cache(const LlamaConfig& config, TokenIds prompt, int64_t count) {
  const at::NoGradGuard no_grad;
  Llama model(config, {.dtype = at::kDouble});
  model.initialize(kSeed);
  TokenIds made;
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor logits = model.forward(at::tensor(prompt, at::kLong).unsqueeze(0));
    made.push_back(at::argmax(logits[0][-1]).item<int64_t>());
    prompt.push_back(made.back());
  }
  return made;
}

void expect_same(const LlamaConfig& config) {
  World world = World::connect();
  const LanguageModel model = make(config, world);
  const std::vector<TokenIds> prompts{{1, 2, 3, 4, 5, 6, 7}, {9}, {8, 7, 6, 5}};
  const GenerateOptions options{.tokens = 20, .sampling = {.temperature = 0}};
  const std::vector<TokenIds> together = generate(model, prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const TokenIds expected = without_cache(config, prompts[i], options.tokens);
    EXPECT_EQ(together[i], expected) << "beside others, prompt " << i;
    EXPECT_EQ(generate(model, {prompts[i]}, options)[0], expected) << "alone, prompt " << i;
  }
  world.close();
}

TEST(Generate, WritesWhatWholePassesSay) {
  expect_same(small());
}

TEST(Generate, LooksBackAsFarAsAWindow) {
  LlamaConfig config = small();
  config.model_type = "mistral";
  config.sliding_window = 5;
  expect_same(config);
}

TEST(Generate, RoutesTokensToExperts) {
  LlamaConfig config = small();
  config.model_type = "mixtral";
  config.num_experts = 4;
  config.num_experts_per_tok = 2;
  config.moe_intermediate_size = 24;
  expect_same(config);
}

TEST(Generate, EndsAtStops) {
  World world = World::connect();
  const LanguageModel model = make(small(), world);
  GenerateOptions options{.tokens = 10, .sampling = {.temperature = 0}};
  const TokenIds all = generate(model, {{1, 2, 3}}, options)[0];
  ASSERT_EQ(all.size(), 10U);
  options.stops = {all[4]};
  const auto first = std::ranges::find(all, all[4]);
  std::vector<TokenIds> seen(2);
  const auto texts = generate(model, {{1, 2, 3}, {4}}, options,
                              [&](size_t prompt, int64_t id) { seen[prompt].push_back(id); });
  EXPECT_EQ(texts[0], TokenIds(all.begin(), first + 1));
  EXPECT_EQ(seen, texts);
  world.close();
}

TEST(Generate, RefusesWhatTheModelCannotContinue) {
  World world = World::connect();
  const LanguageModel model = make(small(), world);
  EXPECT_THROW(generate(model, {}, {}), ConfigError);
  EXPECT_THROW(generate(model, {{}}, {}), ConfigError);
  EXPECT_THROW(generate(model, {{1, 50}}, {.tokens = 1}), ConfigError);
  EXPECT_THROW(generate(model, {{-1}}, {.tokens = 1}), ConfigError);
  EXPECT_THROW(generate(model, {{1}}, {.tokens = 64}), ConfigError);
  EXPECT_THROW(generate(model, {{1}}, {.tokens = 0}), ConfigError);
  EXPECT_EQ(generate(model, {{1}}, {.tokens = 63}).at(0).size(), 63U);
  world.close();
}

}  // namespace
}  // namespace tessera
