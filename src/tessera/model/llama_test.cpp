#include "tessera/model/llama.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/base/error.h"
#include "tessera/format/llama_size.h"
#include "tessera/layer/tokens.h"
#include "tests/testkit/device.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::here;
using testkit::message_of;

LlamaConfig small(bool tied = false) {
  return {.vocab_size = 48,
          .hidden_size = 32,
          .intermediate_size = 40,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .tie_word_embeddings = tied,
          .initializer_range = 0.3};
}

at::Tensor some_tokens(int64_t positions = 12) {
  return at::arange(2 * positions, here(at::kLong)).mul(7).remainder(48).view({2, positions});
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

Llama filled(const LlamaConfig& config, LlamaOptions options = {}) {
  options.device = testkit::device();
  Llama model(config, options);
  model.initialize(7);
  return model;
}

TEST(Llama, ParametersHaveHuggingFaceNamesInAFixedOrder) {
  LlamaConfig config = small();
  config.num_hidden_layers = 1;
  config.attention_bias = true;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : Llama(config).named_parameters()) names.push_back(name);
  const std::string block = "model.layers.0.";
  EXPECT_EQ(names, (std::vector<std::string>{
                       "model.embed_tokens.weight", block + "self_attn.q_proj.weight",
                       block + "self_attn.q_proj.bias", block + "self_attn.k_proj.weight",
                       block + "self_attn.k_proj.bias", block + "self_attn.v_proj.weight",
                       block + "self_attn.v_proj.bias", block + "self_attn.o_proj.weight",
                       block + "self_attn.o_proj.bias", block + "mlp.gate_proj.weight",
                       block + "mlp.up_proj.weight", block + "mlp.down_proj.weight",
                       block + "input_layernorm.weight", block + "post_attention_layernorm.weight",
                       "model.norm.weight", "lm_head.weight"}));
}

TEST(Llama, PartsOneAfterTheOtherAreTheWhole) {
  for (const bool tied : {false, true}) {
    const LlamaConfig config = small(tied);
    const Llama whole = filled(config);
    const Llama first = filled(config, {.part = LlamaPart{.begin = 0, .end = 1, .head = false}});
    const Llama middle = filled(
        config, {.part = LlamaPart{.begin = 1, .end = 2, .embedding = false, .head = false}});
    const Llama last =
        filled(config, {.part = LlamaPart{.begin = 2, .end = 3, .embedding = false}});
    const at::Tensor expected = whole.forward(some_tokens());
    const at::Tensor hidden = middle.forward(first.forward(some_tokens()));
    EXPECT_TRUE(last.forward(hidden).equal(expected)) << "tied: " << tied;
  }
}

TEST(Llama, PartsHoldTheParametersOfTheWholeBetweenThem) {
  const LlamaConfig config = small();
  std::map<std::string, at::Tensor> whole;
  for (const auto& [name, tensor] : filled(config).named_parameters()) whole[name] = tensor;
  size_t found = 0;
  for (int64_t block = 0; block < 3; ++block) {
    const LlamaPart part{
        .begin = block, .end = block + 1, .embedding = block == 0, .head = block == 2};
    for (const auto& [name, tensor] : filled(config, {.part = part}).named_parameters()) {
      EXPECT_TRUE(tensor.equal(whole.at(name))) << name;
      ++found;
    }
  }
  EXPECT_EQ(found, whole.size());
}

TEST(Llama, ListsWhatAStrategyTreatsAsOne) {
  const Llama model(small());
  EXPECT_EQ(model.block_parameters(2).size(), 9U);
  EXPECT_EQ(model.block_parameters(2)[0].name, "model.layers.2.self_attn.q_proj.weight");
  EXPECT_EQ(model.head_parameters().size(), 2U);
  EXPECT_EQ(Llama(small(true)).head_parameters().size(), 1U);  // The norm.
}

TEST(Llama, DeferredWeightGradientsEqualAPlainBackward) {
  for (const bool tied : {false, true}) {
    const Llama model = filled(small(tied), {.dtype = at::kDouble});
    const Llama twin = filled(small(tied), {.dtype = at::kDouble});
    const WeightGradients later;
    for (int64_t microbatch = 0; microbatch < 2; ++microbatch) {
      const at::Tensor tokens = some_tokens().add(microbatch).remainder(48);
      token_loss(model.forward(tokens), tokens).backward();
      token_loss(twin.forward(tokens, {.deferred = &later}), tokens).backward();
    }
    EXPECT_EQ(later.size(), 2U * (3 * 7 + 1));  // The linears of each block, and the head.
    later.run();
    const NamedParameters expected = model.named_parameters();
    const NamedParameters deferred = twin.named_parameters();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT(largest_difference(deferred[i].tensor.grad(), expected[i].tensor.grad()), 1e-12)
          << expected[i].name;
    }
  }
}

TEST(Llama, TheSameTwiceGivesTheSameBits) {
  const at::Tensor tokens = some_tokens();
  std::array<Llama, 2> models{filled(small()), filled(small())};
  for (const Llama& model : models) token_loss(model.forward(tokens), tokens).backward();
  const NamedParameters a = models[0].named_parameters();
  const NamedParameters b = models[1].named_parameters();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].tensor.grad().equal(b[i].tensor.grad()));
}

TEST(Llama, NoPositionSeesLaterOnes) {
  const Llama model = filled(small());
  const at::Tensor tokens = some_tokens();
  const at::Tensor changed = tokens.clone();
  changed.select(1, 11).fill_(0);
  const at::Tensor a = model.forward(tokens);
  const at::Tensor b = model.forward(changed);
  EXPECT_LT(largest_difference(a.narrow(1, 0, 11), b.narrow(1, 0, 11)), 1e-5);
  EXPECT_GT(largest_difference(a.select(1, 11), b.select(1, 11)), 1e-2);
}

TEST(Llama, ChangesItsDtypeInPlace) {
  Llama model = filled(small());
  const at::Tensor weight = model.named_parameters()[1].tensor;
  const at::Tensor expected = model.forward(some_tokens());
  model.to(at::kBFloat16);
  EXPECT_EQ(weight.scalar_type(), at::kBFloat16);  // Who held it has it still.
  const at::Tensor logits = model.forward(some_tokens());
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  EXPECT_LT(largest_difference(logits.to(at::kFloat), expected),
            0.05 * expected.abs().max().item<double>());
  token_loss(logits, some_tokens()).backward();
  EXPECT_EQ(weight.grad().scalar_type(), at::kBFloat16);
}

TEST(Llama, InitialValuesFollowTheConfig) {
  const Llama model = filled(small());
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (name.ends_with("norm.weight")) {
      EXPECT_TRUE(tensor.eq(1).all().item<bool>()) << name;
    } else {
      EXPECT_NEAR(tensor.std().item<double>(), 0.3, 0.04) << name;
    }
    EXPECT_TRUE(tensor.requires_grad() && tensor.is_leaf()) << name;
  }
}

TEST(Llama, RefusesWhatDoesNotFit) {
  const Llama model = filled(small());
  EXPECT_EQ(message_of<ConfigError>([&] { model.forward(some_tokens().cpu().add(48)); }),
            "token id 48 at [0, 0] is outside the vocabulary of 48; ids go from 0 to 47");
  EXPECT_EQ(message_of<ConfigError>([&] { model.block(3, model.embed(some_tokens())); }),
            "block 3 is not in this part, which has blocks 0 to 2");
  EXPECT_EQ(message_of<ConfigError>([&] { model.block(0, some_tokens()); }),
            "hidden states of shape [2, 12] came; blocks take [batch, positions, 32]");
  EXPECT_EQ(message_of<ConfigError>([] { Llama(small(), {.dtype = at::kLong}); }),
            "a Llama of dtype Long cannot be trained; choose a floating-point one");
  EXPECT_EQ(
      message_of<ConfigError>([] { Llama(small(), {.part = LlamaPart{.begin = 2, .end = 4}}); }),
      "blocks 2 to 4 are no part of a Llama of 3 blocks");
}

TEST(Llama, WithoutValuesSaysWhatIsMissing) {
  const std::string expected =
      "the Llama has no values yet; call load() or initialize() before it runs";
  const Llama model(small());
  const at::Tensor hidden = at::rand({1, 2, 32}, here());
  EXPECT_EQ(message_of<StateError>([&] { model.forward(some_tokens()); }), expected);
  EXPECT_EQ(message_of<StateError>([&] { model.block(1, hidden); }), expected);
  EXPECT_EQ(message_of<StateError>([&] { model.head(hidden); }), expected);
}

}  // namespace
}  // namespace tessera
