#include "tessera/model/weights.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/format/weight_files.h"
#include "tessera/model/llama.h"
#include "tessera/tensor/unallocated.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::message_of;
using testkit::TemporaryFolder;

LlamaConfig small() {
  return {.vocab_size = 16,
          .hidden_size = 8,
          .intermediate_size = 12,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .head_dim = 4};
}

Llama filled(const LlamaOptions& options = {}) {
  Llama model(small(), options);
  model.initialize(3);
  return model;
}

void expect_equal(const Llama& a, const Llama& b) {
  const Parameters left = a.named_parameters();
  const Parameters right = b.named_parameters();
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_TRUE(left[i].tensor.equal(right[i].tensor)) << left[i].name;
  }
}

using Change = std::function<void(Parameters&)>;

// The error of a Llama that loads its own weights after a change.
std::string refusal_of(const Change& change) {
  const TemporaryFolder folder;
  Parameters parameters = filled().named_parameters();
  change(parameters);
  write_tensors(parameters, folder.path(), 1 << 20);
  return message_of<DataError>([&] { Llama(small()).load(WeightFiles(folder.path())); });
}

TEST(Weights, ComeBackAsTheyWere) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const TemporaryFolder folder;
    const Llama model = filled({.dtype = dtype});
    model.save(folder.path());
    EXPECT_TRUE(fs::exists(folder.path("config.json")));
    Llama loaded(small(), {.dtype = dtype});
    loaded.load(WeightFiles(folder.path()));
    expect_equal(loaded, model);
  }
}

TEST(Weights, ComeBackFromManyFiles) {
  const TemporaryFolder folder;
  const Llama model = filled();
  model.save(folder.path(), 1000);
  const WeightFiles files(folder.path());
  EXPECT_GT(files.files().size(), 3U);
  Llama loaded(small());
  loaded.load(files);
  expect_equal(loaded, model);
}

TEST(Weights, AreConvertedToTheModelsDtype) {
  const std::array<std::pair<at::ScalarType, at::ScalarType>, 3> cases{
      {{at::kBFloat16, at::kDouble}, {at::kFloat, at::kBFloat16}, {at::kHalf, at::kFloat}}};
  for (const auto& [stored, wanted] : cases) {
    const TemporaryFolder folder;
    filled({.dtype = stored}).save(folder.path());
    Llama loaded(small(), {.dtype = wanted});
    loaded.load(WeightFiles(folder.path()));
    Llama expected = filled({.dtype = stored});
    expected.to(wanted);
    expect_equal(loaded, expected);
  }
}

TEST(Weights, APartTakesItsOwn) {
  const TemporaryFolder folder;
  const Llama model = filled();
  model.save(folder.path());
  const Parameters block = llama_units(small(), {}, {2, 3})[0].parameters;
  fill_llama(block, small(), WeightFiles(folder.path()));
  EXPECT_TRUE(block[0].tensor.equal(model.units()[2].parameters[0].tensor));
}

// Sharded by rows, by columns, and to a run of columns.
TEST(Weights, OnlyTheShardOfAParameterIsRead) {
  const TemporaryFolder folder;
  const Llama model = filled();
  model.save(folder.path());
  const Parameter& whole = model.units()[1].parameters[0];
  const Part all(whole.tensor.sizes().vec());
  for (const Part& part : {all.cut(0, 2, 1), all.cut(1, 4, 2), all.cut(1, 2, 0).run({3, 11})}) {
    const at::Tensor flat = whole.tensor.detach().reshape(-1);
    std::vector<at::Tensor> pieces;
    for (const Span& span : part.spans()) pieces.push_back(flat.slice(0, span.begin, span.end));
    Parameter piece(whole.name, unallocated({part.numel()}, at::kFloat));
    piece.place.part = part;
    load(piece, WeightFiles(folder.path()));
    EXPECT_TRUE(piece.tensor.equal(at::cat(pieces)));
    fill_llama({piece}, small(), 3);
    EXPECT_TRUE(piece.tensor.equal(at::cat(pieces)));
  }
}

TEST(Weights, ThatDoNotFitTheConfigAreNamed) {
  EXPECT_NE(refusal_of([](auto& all) { all.pop_back(); }).find("no tensor 'lm_head.weight'"),
            std::string::npos);
  EXPECT_NE(refusal_of([](auto& all) {
              all[0].name = "model.embed_token.weight";
            }).find("did you mean 'model.embed_token.weight'?"),
            std::string::npos);
  EXPECT_EQ(refusal_of([](auto& all) { all.push_back({"score.weight", all[0].tensor}); }),
            "the weight files hold 'score.weight', which the model of this config does not have");
  EXPECT_EQ(refusal_of([](auto& all) { all[0] = {all[0].name, all[0].tensor.t()}; }),
            "'model.embed_tokens.weight' has shape [8, 16] in the weight files; the config needs "
            "[16, 8]");
}

TEST(Weights, OfNoFloatingPointDtypeAreRefused) {
  const TemporaryFolder folder;
  std::vector<TensorSpec> specs;
  for (const Parameter& parameter : Llama(small()).named_parameters()) {
    specs.push_back(
        {.name = parameter.name, .dtype = DType::kI8, .shape = parameter.tensor.sizes().vec()});
  }
  write_weight_files(folder.path(), specs, 1 << 20, [](const TensorSpec& spec, auto& file) {
    const std::string ones(static_cast<size_t>(*bytes_of(spec.dtype, spec.shape)), '\1');
    file.write(std::as_bytes(std::span(ones)));
  });
  EXPECT_EQ(message_of<DataError>([&] { Llama(small()).load(WeightFiles(folder.path())); }),
            "'model.embed_tokens.weight' has dtype I8; weights must be F64, F32, BF16 or F16");
}

TEST(Weights, ThatDoNotFitChangeNothing) {
  const TemporaryFolder folder;
  Parameters parameters = Llama(small()).named_parameters();
  for (Parameter& parameter : parameters) parameter.tensor = at::zeros(parameter.tensor.sizes());
  parameters.back() = {parameters.back().name, at::zeros({1})};
  write_tensors(parameters, folder.path(), 1 << 20);
  Llama model = filled();
  EXPECT_THROW(model.load(WeightFiles(folder.path())), DataError);
  expect_equal(model, filled());
}

TEST(Weights, ThatAFileHoldsBesidesArePassedOver) {
  const TemporaryFolder folder;
  LlamaConfig tied = small();
  tied.tie_word_embeddings = true;
  Parameters parameters = filled().named_parameters();  // With a head of its own.
  parameters.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", at::arange(2, at::kFloat)});
  write_tensors(parameters, folder.path(), 1 << 20);
  Llama loaded(tied);
  loaded.load(WeightFiles(folder.path()));
  EXPECT_TRUE(loaded.named_parameters()[0].tensor.equal(parameters[0].tensor));
}

TEST(Weights, AFolderWithWeightsIsRefused) {
  const TemporaryFolder folder;
  const Llama model = filled();
  model.save(folder.path());
  EXPECT_EQ(message_of<ConfigError>([&] { model.save(folder.path(), 1000); }),
            folder.path() +
                " already holds weights (model.safetensors); choose another folder or "
                "remove them");
  WeightFiles(folder.path());
}

TEST(Weights, ThatAreNotThereAreNotSaved) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<StateError>([&] { Llama(small()).save(folder.path()); }),
            "cannot save a Llama without weights; call load() or initialize() first");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace tessera
