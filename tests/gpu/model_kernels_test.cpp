// A whole model with the kernels of a GPU, beside the same model without them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/kernel/gpu_kernel.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama.h"
#include "tests/gpu/device.h"

namespace tessera {
namespace {

const LlamaConfig kShape{.vocab_size = 320,
                         .hidden_size = 64,
                         .intermediate_size = 96,
                         .num_hidden_layers = 2,
                         .num_attention_heads = 4,
                         .num_key_value_heads = 2,
                         .head_dim = 16};

struct Step {
  double loss;
  std::vector<at::Tensor> gradients;
};

Step step_of(at::ScalarType dtype, at::Device device, Fp8 fp8) {
  Llama model(kShape);
  model.initialize(/*seed=*/1);
  model.to(dtype);
  model.to(device);
  at::manual_seed(7);
  const at::Tensor tokens = at::randint(kShape.vocab_size, {2, 17}, at::kLong).to(device);
  const Pass pass{.fp8 = fp8};
  const at::Tensor loss =
      token_loss(model.forward(tokens.slice(1, 0, 16), pass), tokens.slice(1, 1, 17));
  loss.backward();
  Step step{.loss = loss.item<double>(), .gradients = {}};
  for (const Parameter& parameter : model.named_parameters()) {
    step.gradients.push_back(parameter.tensor.grad().cpu().to(at::kDouble));
  }
  return step;
}

double relative_error(const at::Tensor& got, const at::Tensor& wanted) {
  return ((got - wanted).norm() / wanted.norm()).item<double>();
}

void expect_near(const Step& got, const Step& wanted, double loss, double gradients) {
  EXPECT_NEAR(got.loss, wanted.loss, loss);
  ASSERT_EQ(got.gradients.size(), wanted.gradients.size());
  for (size_t i = 0; i < got.gradients.size(); ++i) {
    EXPECT_LT(relative_error(got.gradients[i], wanted.gradients[i]), gradients) << i;
  }
}

// float32 with sums in another order; bfloat16 rounds every result by up to 2^-9, some 20 in a row.
TEST(ModelKernels, GiveTheGradientsOfLibTorch) {
  ASSERT_TRUE(has_kernels(at::empty({1}, kGpu)));
  const Step exact = step_of(at::kDouble, at::kCPU, Fp8::kNone);
  expect_near(step_of(at::kFloat, kGpu, Fp8::kNone), exact, 1e-5, 1e-5);
  expect_near(step_of(at::kBFloat16, kGpu, Fp8::kNone), exact, 1e-2, 5e-2);
}

// The same products of the same float8 values; what is added in another order rounds differently,
// which moves some values to the next of float8.
TEST(ModelKernels, RoundToFloat8LikeLibTorch) {
  for (const Fp8 fp8 : {Fp8::kRowwise, Fp8::kTensorwise}) {
    const Step got = step_of(at::kBFloat16, kGpu, fp8);
    const WithoutKernels plain;
    expect_near(got, step_of(at::kBFloat16, at::kCPU, fp8), 1e-2, 0.1);
  }
}

}  // namespace
}  // namespace tessera
