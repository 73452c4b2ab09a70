// Compares with results of transformers in tests/golden/llama, written by make_llama.py.
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tessera/base/text.h"
#include "tessera/format/llama_size.h"
#include "tessera/format/safetensors.h"
#include "tessera/format/weight_files.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

LlamaConfig config_of(const fs::path& folder) {
  std::ostringstream text;
  text << std::ifstream(folder / "config.json").rdbuf();
  return parse_llama_config(text.str(), folder.string());
}

/// The peer's results.
class Answers {
 public:
  explicit Answers(const fs::path& folder) : file_(folder / "answers.safetensors") {}

  at::Tensor tensor(const std::string& name) const {
    const StoredTensor* stored = file_.find(name);
    if (stored == nullptr) throw std::runtime_error("no answer '" + name + "'");
    const at::ScalarType dtype = stored->spec.dtype == DType::kI64 ? at::kLong : at::kFloat;
    void* data = const_cast<std::byte*>(file_.bytes(*stored).data());
    return at::from_blob(data, stored->spec.shape, dtype).clone();
  }
  int64_t number(const std::string& key) const { return *to_integer(file_.metadata().at(key)); }

 private:
  SafetensorsFile file_;
};

class LlamaGolden : public testing::TestWithParam<const char*> {
 protected:
  const fs::path folder_ = fs::path(TESSERA_GOLDEN_DIR) / "llama" / GetParam();
  const Answers answers_ = Answers(folder_);

  Llama loaded(const LlamaOptions& options = {}) const {
    Llama model(config_of(folder_), options);
    model.load(WeightFiles(folder_));
    return model;
  }
};

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

TEST_P(LlamaGolden, LogitsAreThoseOfTransformers) {
  const at::Tensor logits = loaded().forward(answers_.tensor("tokens"));
  EXPECT_LT(largest_difference(logits, answers_.tensor("logits")), 2e-5);
}

// The peer computed in single precision, so double is not closer.
TEST_P(LlamaGolden, LogitsAreTheSameInDouble) {
  const at::Tensor logits = loaded({.dtype = at::kDouble}).forward(answers_.tensor("tokens"));
  EXPECT_EQ(logits.scalar_type(), at::kDouble);
  EXPECT_LT(largest_difference(logits, answers_.tensor("logits")), 2e-5);
}

TEST_P(LlamaGolden, LossAndGradientsAreThoseOfTransformers) {
  const Llama model = loaded();
  const at::Tensor loss =
      token_loss(model.forward(answers_.tensor("tokens")), answers_.tensor("targets"));
  EXPECT_NEAR(loss.item<double>(), answers_.tensor("loss").item<double>(), 1e-5);
  loss.backward();
  for (const Parameter& parameter : model.named_parameters()) {
    const double expected = answers_.tensor("grad_norm." + parameter.name).item<double>();
    EXPECT_NEAR(parameter.tensor.grad().norm().item<double>(), expected, 1e-5 * expected)
        << parameter.name;
  }
}

TEST_P(LlamaGolden, SizesAreThoseOfTransformers) {
  const LlamaConfig config = config_of(folder_);
  const at::Tensor tokens = answers_.tensor("tokens");
  EXPECT_EQ(parameter_count(config), answers_.number("parameters"));
  EXPECT_EQ(Llama(config).parameter_count(), answers_.number("parameters"));
  EXPECT_EQ(flops_per_token(config, tokens.size(1)) * tokens.numel(), answers_.number("flops"));
}

INSTANTIATE_TEST_SUITE_P(Tables, LlamaGolden,
                         testing::Values("untied", "grouped_tied", "llama3_scaled"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tessera
