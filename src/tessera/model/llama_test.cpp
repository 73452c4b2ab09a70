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
  for (const Parameter& parameter : Llama(config).named_parameters())
    names.push_back(parameter.name);
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

// Units, built like a pipeline stage does.
std::vector<Unit> filled_units(const LlamaConfig& config, Span range) {
  std::vector<Unit> units = llama_units(config, {.device = testkit::device()}, range);
  for (const Unit& unit : units) fill_llama(unit.parameters, config, 7);
  return units;
}

TEST(LlamaUnits, InSequenceAreTheWholeModel) {
  for (const bool tied : {false, true}) {
    const LlamaConfig config = small(tied);
    const at::Tensor expected = filled(config).forward(some_tokens());
    at::Tensor x = some_tokens();
    for (const Span range : {Span{0, 2}, Span{2, 3}, Span{3, 5}}) {
      for (const Unit& unit : filled_units(config, range)) x = unit.forward(x, {});
    }
    EXPECT_TRUE(x.equal(expected)) << "tied: " << tied;
  }
}

TEST(LlamaUnits, TogetherHaveAllParameters) {
  const LlamaConfig config = small();
  std::map<std::string, at::Tensor> whole;
  for (const Parameter& p : filled(config).named_parameters()) whole[p.name] = p.tensor;
  size_t found = 0;
  for (int64_t i = 0; i < num_llama_units(config); ++i) {
    const std::vector<Unit> units = filled_units(config, {i, i + 1});
    for (const Parameter& p : units[0].parameters) {
      EXPECT_TRUE(p.tensor.equal(whole.at(p.name))) << p.name;
      ++found;
    }
  }
  EXPECT_EQ(found, whole.size());
}

TEST(LlamaUnits, ListWhatAStrategyTreatsAsOne) {
  const Llama model(small());
  const Unit& block = model.units()[3];
  EXPECT_EQ(block.name, "model.layers.2");
  EXPECT_EQ(block.parameters.size(), 9U);
  EXPECT_EQ(block.parameters[0].name, "model.layers.2.self_attn.q_proj.weight");
  EXPECT_EQ(model.units()[4].parameters.size(), 2U);
}

TEST(LlamaUnits, ATiedHeadHoldsTheEmbeddingIfNoOtherUnitDoes) {
  EXPECT_EQ(Llama(small(true)).units()[4].parameters.size(), 1U);  // The norm.
  const Parameters alone = llama_units(small(true), {}, {4, 5})[0].parameters;
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_EQ(alone[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(llama_model(small(true)).tied[0].name, alone[0].name);
  EXPECT_TRUE(llama_model(small()).tied.empty());
}

TEST(LlamaUnits, StagesFollowTheSplitPoints) {
  LlamaConfig config = small();
  config.num_hidden_layers = 10;
  const std::vector<Span> stages = stage_units(llama_model(config), 4);
  EXPECT_EQ(stages, (std::vector<Span>{{0, 3}, {3, 6}, {6, 9}, {9, 12}}));
  EXPECT_THROW(stage_units(llama_model(config), 11), ConfigError);
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
    const Parameters expected = model.named_parameters();
    const Parameters deferred = twin.named_parameters();
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
  const Parameters a = models[0].named_parameters();
  const Parameters b = models[1].named_parameters();
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
  EXPECT_EQ(weight.scalar_type(), at::kBFloat16);  // Handles still refer to it.
  const at::Tensor logits = model.forward(some_tokens());
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  EXPECT_LT(largest_difference(logits.to(at::kFloat), expected),
            0.05 * expected.abs().max().item<double>());
  token_loss(logits, some_tokens()).backward();
  EXPECT_EQ(weight.grad().scalar_type(), at::kBFloat16);
}

TEST(Llama, InitialValuesFollowTheConfig) {
  const Llama model = filled(small());
  for (const Parameter& parameter : model.named_parameters()) {
    if (parameter.name.ends_with("norm.weight")) {
      EXPECT_TRUE(parameter.tensor.eq(1).all().item<bool>()) << parameter.name;
    } else {
      EXPECT_NEAR(parameter.tensor.std().item<double>(), 0.3, 0.04) << parameter.name;
    }
    EXPECT_TRUE(parameter.tensor.requires_grad() && parameter.tensor.is_leaf()) << parameter.name;
  }
}

TEST(Llama, RefusesWhatDoesNotFit) {
  const Llama model = filled(small());
  EXPECT_EQ(message_of<ConfigError>([&] { model.forward(some_tokens().cpu().add(48)); }),
            "token id 48 at [0, 0] is outside the vocabulary of 48; ids must be from 0 to 47");
  EXPECT_EQ(message_of<ConfigError>([&] { model.units()[1].forward(some_tokens(), {}); }),
            "hidden states have shape [2, 12], but blocks need [batch, positions, 32]");
  EXPECT_EQ(message_of<ConfigError>([] { Llama(small(), {.dtype = at::kLong}); }),
            "a Llama of dtype Long cannot be trained; choose a floating-point dtype");
  EXPECT_EQ(message_of<ConfigError>([] { llama_units(small(), {}, {2, 6}); }),
            "units 2 to 6 do not exist; the Llama has 5");
}

TEST(Llama, WithoutWeightsThrows) {
  const std::string expected = "the Llama has no weights yet; call load() or initialize() first";
  const Llama model(small());
  const at::Tensor hidden = at::rand({1, 2, 32}, here());
  EXPECT_EQ(message_of<StateError>([&] { model.forward(some_tokens()); }), expected);
  for (const size_t unit : {2, 4}) {
    EXPECT_EQ(message_of<StateError>([&] { model.units()[unit].forward(hidden, {}); }), expected);
  }
}

}  // namespace
}  // namespace tessera
