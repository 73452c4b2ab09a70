// The kernels of a GPU beside the same layers on a CPU, in double precision.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "tessera/base/error.h"
#include "tessera/kernel/fp8.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/layer/fp8.h"
#include "tessera/layer/norm.h"
#include "tessera/layer/rotary.h"
#include "tessera/layer/swiglu.h"
#include "tessera/layer/tokens.h"
#include "tests/gpu/device.h"
#include "tests/gpu/random_shape.h"

namespace tessera {
namespace {

using Tensors = std::vector<at::Tensor>;
using Layer = std::function<Tensors(const Tensors& inputs)>;

// Results are rounded once; sums of a gradient may be rounded in between, too.
double tolerance(at::ScalarType dtype) {
  if (dtype == at::kFloat) return 2e-5;
  return dtype == at::kBFloat16 ? 2e-2 : 3e-3;
}

// In memory of its own, like a product, but as far from its beginning as `values`, where
// `values * factor` would not be.
at::Tensor times(const at::Tensor& values, double factor) {
  const int64_t begin = values.storage_offset();
  const at::Tensor product = values.flatten() * factor;
  const at::Tensor memory = at::cat({product.narrow(0, 0, begin), product});
  return memory.narrow(0, begin, values.numel()).view(values.sizes());
}

void expect_close(const at::Tensor& got, const at::Tensor& wanted, at::ScalarType dtype,
                  const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  const at::Tensor values = got.detach().cpu().to(at::kDouble);
  const double scale = std::max(1.0, wanted.detach().abs().max().item<double>());
  EXPECT_LT((values - wanted.detach()).abs().max().item<double>(), tolerance(dtype) * scale)
      << what;
}

// Each value by itself, for tensors in which most are far smaller than the largest.
void expect_each_close(const at::Tensor& got, const at::Tensor& wanted, at::ScalarType dtype,
                       const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  constexpr double kRounding = 5e-7;  // Of the smallest numbers of fp16, and of p - 1 in float32.
  const at::Tensor error = (got.detach().cpu().to(at::kDouble) - wanted.detach()).abs();
  const at::Tensor most = wanted.detach().abs() * tolerance(dtype) + kRounding;
  EXPECT_TRUE((error < most).all().item<bool>())
      << what << ": " << (error / most).max().item<double>() << " times the tolerance";
}

using Comparison = decltype(&expect_close);

void expect_same(const Layer& layer, const Tensors& inputs, at::ScalarType dtype, bool shifts,
                 const std::string& what, Comparison expect_gradient = expect_close) {
  Tensors on_cpu;
  Tensors on_gpu;
  for (const at::Tensor& input : inputs) {
    const at::Tensor rounded = input.to(dtype);
    on_cpu.push_back(rounded.to(at::kDouble).requires_grad_());
    const at::Tensor there = rounded.to(kGpu);
    on_gpu.push_back((shifts ? shifted(there) : there).detach().requires_grad_());
    ASSERT_TRUE(has_kernels(on_gpu.back()));
  }
  const Tensors wanted = layer(on_cpu);
  const Tensors got = layer(on_gpu);
  at::Tensor wanted_loss = at::zeros({}, at::kDouble);
  at::Tensor got_loss = at::zeros({}, at::TensorOptions(kGpu).dtype(at::kDouble));
  for (size_t i = 0; i < wanted.size(); ++i) {
    expect_close(got[i], wanted[i], dtype, what + ", result " + std::to_string(i));
    if (shifts) got[i].register_hook(shifted);  // Gradients, too.
    const at::Tensor factor = at::randn(wanted[i].sizes(), at::kDouble).to(dtype).to(at::kDouble);
    wanted_loss = wanted_loss + (wanted[i] * factor).sum();
    got_loss = got_loss + (got[i] * factor.to(kGpu).to(got[i].scalar_type())).to(at::kDouble).sum();
  }
  wanted_loss.backward();
  got_loss.backward();
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_gradient(on_gpu[i].grad(), on_cpu[i].grad(), dtype,
                    what + ", gradient " + std::to_string(i));
  }
}

void sweep(const Layer& layer, const std::function<Tensors(int64_t rows, int64_t size)>& inputs,
           const std::vector<int64_t>& sizes, Comparison expect_gradient = expect_close) {
  at::manual_seed(1);
  for (const at::ScalarType dtype : kDtypes) {
    for (const int64_t size : sizes) {
      for (const int64_t rows : {int64_t{1}, int64_t{3}, kManyRows}) {
        for (const bool shifts : {false, true}) {
          expect_same(layer, inputs(rows, size), dtype, shifts,
                      c10::str(dtype, " [", rows, ", ", size, "]", shifts ? " shifted" : ""),
                      expect_gradient);
        }
      }
    }
  }
}

at::Tensor random(at::IntArrayRef sizes) {
  return at::randn(sizes, at::kDouble);
}

const Layer kSwiGlu = [](const Tensors& in) { return Tensors{swiglu(in[0], in[1])}; };
const Layer kNorm = [](const Tensors& in) { return Tensors{rms_norm(in[0], in[1], 1e-5)}; };
const Layer kNormedSum = [](const Tensors& in) {
  const NormedSum made = normed_sum(in[0], in[1], in[2], 1e-5);
  return Tensors{made.sum, made.normed};
};

const std::vector<int64_t> kSizes{1, 8, 30, 64, 129, 768, 2048};

TEST(Kernels, SwiGlu) {
  sweep(
      kSwiGlu,
      [](int64_t rows, int64_t size) {
        return Tensors{random({rows, size}), random({rows, size})};
      },
      kSizes);
}

// As one product leaves them.
TEST(Kernels, SwiGluOfNeighbours) {
  sweep(
      [](const Tensors& in) {
        const Tensors halves = in[0].chunk(2, -1);
        return Tensors{swiglu(halves[0], halves[1])};
      },
      [](int64_t rows, int64_t size) { return Tensors{random({1, rows, 2 * size})}; }, kSizes);
}

TEST(Kernels, Norm) {
  sweep(
      kNorm,
      [](int64_t rows, int64_t size) { return Tensors{random({rows, size}), random({size})}; },
      kSizes);
}

TEST(Kernels, NormWithTheResidualAddition) {
  sweep(
      kNormedSum,
      [](int64_t rows, int64_t size) {
        return Tensors{random({rows, size}), random({rows, size}), random({size})};
      },
      kSizes);
  sweep(
      [](const Tensors& in) {
        const NormedSum made = normed_sum(in[0], {}, in[1], 1e-5);
        return Tensors{made.sum * 2, made.normed};
      },
      [](int64_t rows, int64_t size) { return Tensors{random({rows, size}), random({size})}; },
      {129, 2048});
}

TEST(Kernels, ASumWhoseNormNobodyReadsHasTheGradientOfAnAddition) {
  const at::Tensor weight = at::ones({64}, kGpu).requires_grad_();
  for (const bool adds : {true, false}) {
    const at::Tensor x = at::randn({3, 64}, kGpu).requires_grad_();
    const at::Tensor added = adds ? at::randn({3, 64}, kGpu).requires_grad_() : at::Tensor();
    (normed_sum(x, added, weight, 1e-5).sum * 2).sum().backward();
    EXPECT_TRUE(x.grad().equal(at::full_like(x, 2)));
    EXPECT_TRUE(!adds || added.grad().equal(x.grad()));
    EXPECT_FALSE(weight.grad().defined());
  }
}

// More than blocks, so that each block has several.
TEST(Kernels, NormOfManyRows) {
  expect_same(kNorm, {random({1100, 132}), random({132})}, at::kFloat, /*shifts=*/false,
              "1100 rows");
}

RotaryTable table_of(const at::Tensor& heads, bool per_row) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < heads.size(3) / 2; ++i)
    frequencies.push_back(0.5 / static_cast<double>(1 + i));
  // The table of both sides has the same values: those of a short dtype.
  const int64_t positions = heads.size(1) + (per_row ? heads.size(0) : 0);
  RotaryTable table = rotary_table(frequencies, positions, at::kBFloat16);
  table.cosines = table.cosines.to(heads.options());
  table.sines = table.sines.to(heads.options());
  if (!per_row) return table;
  // Each row has other positions.
  const at::Tensor rows = at::arange(heads.size(0), at::kLong).unsqueeze(1);
  return rotary_table_at(table, rows + at::arange(heads.size(1), at::kLong).flip(0));
}

// Three heads of queries, two of keys and values.
Layer rotation(bool reuses, bool per_row) {
  return [=](const Tensors& in) {
    const at::Tensor all = times(in[0], 1);
    const Tensors parts = all.split_with_sizes({3, 2, 2}, 2);
    const Heads made =
        rotate(Heads{parts[0], parts[1], parts[2]}, table_of(parts[0].detach(), per_row), reuses);
    return Tensors{made.queries, made.keys, made.values};
  };
}

void check_rotary(bool reuses, bool per_row) {
  at::manual_seed(2);
  for (const at::ScalarType dtype : kDtypes) {
    for (const int64_t size : {2, 6, 16, 128}) {
      for (const bool shifts : {false, true}) {
        expect_same(rotation(reuses, per_row), {random({2, 5, 7, size})}, dtype, shifts,
                    c10::str(dtype, " heads of ", size));
      }
    }
  }
}

TEST(Kernels, RotaryEmbedding) {
  check_rotary(/*reuses=*/false, /*per_row=*/false);
  check_rotary(/*reuses=*/false, /*per_row=*/true);
}

TEST(Kernels, RotaryEmbeddingInPlace) {
  check_rotary(/*reuses=*/true, /*per_row=*/false);
  check_rotary(/*reuses=*/true, /*per_row=*/true);
}

// Both factors are exact in every dtype.
Layer loss_for(const at::Tensor& targets) {
  return [=](const Tensors& in) {
    const at::Tensor logits = times(in[0], 2);
    const at::Tensor sum = token_loss_sum(logits, targets.to(logits.device()), kIgnoredTarget);
    return Tensors{sum / 16};
  };
}

TEST(Kernels, CrossEntropy) {
  for (const int64_t size : {2, 33, 1000, 32000}) {
    const at::Tensor targets = at::randint(size, {2, 9}, at::kLong);
    targets[1][4] = kIgnoredTarget;
    sweep(
        loss_for(targets), [&](int64_t, int64_t) { return Tensors{random({2, 9, size})}; }, {1},
        expect_each_close);
  }
}

// Logits that someone still holds are not overwritten by their gradient.
TEST(Kernels, CrossEntropyLeavesHeldLogitsAlone) {
  const at::Tensor input = at::randn({1, 4, 64}, kGpu).requires_grad_();
  const at::Tensor logits = input * 1;
  const at::Tensor before = logits.detach().clone();
  token_loss_sum(logits, at::zeros({1, 4}, at::TensorOptions(kGpu).dtype(at::kLong)), -1)
      .backward();
  EXPECT_TRUE(logits.equal(before));
}

TEST(Kernels, CrossEntropyWritesTheGradientOverLogitsThatNobodyHolds) {
  const at::Tensor weight = at::randn({64, 8}, kGpu).requires_grad_();
  at::Tensor logits = at::linear(at::randn({1, 4, 8}, kGpu), weight);
  const void* const place = logits.const_data_ptr();
  const void* gradient_place = nullptr;
  logits.register_hook(
      [&](const at::Tensor& gradient) { gradient_place = gradient.const_data_ptr(); });
  const at::Tensor targets = at::zeros({1, 4}, at::TensorOptions(kGpu).dtype(at::kLong));
  const at::Tensor loss = token_loss_sum(logits, targets, -1);
  logits.reset();
  loss.backward();
  EXPECT_EQ(gradient_place, place);
}

// As a split backward pass does: for the input first, for the weights later.
TEST(Kernels, CrossEntropyCanBeWalkedTwice) {
  const at::Tensor weight = at::randn({64, 8}, kGpu).requires_grad_();
  const at::Tensor x = at::randn({1, 4, 8}, kGpu).requires_grad_();
  const at::Tensor targets = at::zeros({1, 4}, at::TensorOptions(kGpu).dtype(at::kLong));
  const auto loss = [&] { return token_loss_sum(at::linear(x, weight), targets, -1); };
  const Tensors wanted = torch::autograd::grad({loss()}, {x, weight});
  const at::Tensor walked = loss();
  const Tensors of_x = torch::autograd::grad({walked}, {x}, {}, /*retain_graph=*/true);
  const Tensors of_weight = torch::autograd::grad({walked}, {weight});
  EXPECT_TRUE(of_x[0].equal(wanted[0]));
  EXPECT_TRUE(of_weight[0].equal(wanted[1]));
}

TEST(Kernels, CrossEntropyNoticesWhatItCannotReadAnyMore) {
  const at::Tensor x = at::randn({1, 4, 64}, kGpu).requires_grad_();
  const at::Tensor targets = at::zeros({1, 4}, at::TensorOptions(kGpu).dtype(at::kLong));
  const at::Tensor logits = x * 1;
  const at::Tensor changed = token_loss_sum(logits, targets, -1);
  logits.div_(2);
  EXPECT_THROW(changed.backward(), StateError);
  const at::Tensor once = token_loss_sum(x * 1, targets, -1);
  once.backward();
  EXPECT_THROW(once.backward(), StateError) << "the gradient has taken the place of the logits";
  const at::InferenceMode no_graph;
  EXPECT_GT(token_loss_sum(x * 1, targets, -1).item<double>(), 0);
}

// Layers take what LibTorch's operators take.
TEST(Kernels, OperandsOfOtherDtypesAndShapesAreThoseOfLibTorch) {
  const at::Tensor x = at::randn({3, 64}, at::TensorOptions(kGpu).dtype(at::kBFloat16));
  const at::Tensor row = at::randn({64}, at::TensorOptions(kGpu).dtype(at::kBFloat16));
  EXPECT_TRUE(swiglu(x, row).equal(at::silu(x) * row));
  EXPECT_TRUE(swiglu(x, x.to(at::kFloat)).equal(at::silu(x) * x.to(at::kFloat)));
  const at::Tensor added = at::randn({3, 64}, kGpu);
  const auto expect_normed = [&](const at::Tensor& other, const at::Tensor& weight) {
    const NormedSum made = normed_sum(x, other, weight, 1e-5);
    const at::Tensor sum = x + other;
    EXPECT_TRUE(made.sum.equal(sum));
    const at::Tensor wanted =
        at::rms_norm(sum.cpu().to(at::kDouble), {64}, weight.cpu().to(at::kDouble), 1e-5);
    expect_close(made.normed, wanted, at::kBFloat16, "norm");
  };
  expect_normed(added, row);
  expect_normed(row, row);
  expect_normed(x, row.to(at::kFloat));
  expect_normed(x, at::stack({row, row}, 1).select(1, 0));
  expect_normed(x, row[0].expand({64}));
}

// Wherever they are: some threads have one logit, some a pack of them.
TEST(Kernels, LossesOfNonFiniteLogitsAreThoseOfLibTorch) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  at::manual_seed(8);
  for (const int64_t size : {33, 64, 8000}) {
    at::Tensor logits = random({9, size});
    logits[0][0] = nan;
    logits[1][size - 1] = nan;
    logits[2].slice(0, 0, 16).fill_(nan);
    logits[3].fill_(nan);
    logits[4][5] = infinity;
    logits[5][5] = -infinity;
    logits[6].fill_(-infinity);
    logits[7].slice(0, 2).fill_(-infinity);
    logits[8].slice(0, 2).fill_(-infinity);
    logits[8][size - 1] = nan;
    for (int64_t row = 0; row < logits.size(0); ++row) {
      const at::Tensor own = logits[row].view({1, 1, size});
      const at::Tensor target = at::ones({1, 1}, at::kLong);
      const double wanted = token_loss_sum(own, target, -1).item<double>();
      const double got =
          token_loss_sum(own.to(kGpu, at::kFloat), target.to(kGpu), -1).item<double>();
      if (std::isnan(wanted)) {
        EXPECT_TRUE(std::isnan(got)) << size << ", row " << row << ": " << got;
      } else {
        EXPECT_NEAR(got, wanted, 1e-4) << size << ", row " << row;
      }
    }
  }
}

TEST(Kernels, ATargetOutsideTheVocabularyHasNoLoss) {
  const at::Tensor targets = at::full({1, 1}, 64, at::TensorOptions(kGpu).dtype(at::kLong));
  const at::Tensor loss = token_loss_sum(at::randn({1, 1, 64}, kGpu), targets, -1);
  EXPECT_TRUE(loss.isnan().item<bool>());
}

// Bit for bit: both sides multiply by the same factor and round once.
void expect_same_fp8(const at::Tensor& matrix, const std::string& what) {
  ASSERT_TRUE(has_fp8_kernels(matrix)) << what;
  const at::Tensor sizes = matrix.cpu().abs().to(at::kFloat);
  for (const bool by_rows : {true, false}) {
    const at::Tensor largest =
        (by_rows ? sizes.amax(1, /*keepdim=*/true) : sizes.max()).clamp_min(kSmallestFp8Row);
    const at::Tensor wanted =
        (matrix.cpu().to(at::kFloat) * (kLargestFp8 / largest)).to(at::kFloat8_e4m3fn);
    const GpuFp8Rows got =
        fp8_rows_on_gpu(matrix, by_rows ? at::Tensor() : largest.to(matrix.device()));
    ASSERT_EQ(got.values.sizes(), matrix.sizes()) << what;
    EXPECT_TRUE(got.values.is_contiguous()) << what;
    EXPECT_TRUE(got.values.cpu().view(at::kByte).equal(wanted.contiguous().view(at::kByte)))
        << what;
    EXPECT_TRUE(got.scales.cpu().equal((largest / kLargestFp8).expand({matrix.size(0), 1})))
        << what;
  }
}

TEST(Kernels, RowsAndColumnsInFloat8) {
  at::manual_seed(6);
  for (const at::ScalarType dtype : kDtypes) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1},
                                        {3, 16},
                                        {16, 3},
                                        {33, 31},
                                        {144, 272},
                                        {300, 72},
                                        {2, 4099},
                                        {65, 2048}}) {
      for (const bool shifts : {false, true}) {
        at::Tensor values = random({rows, columns}).to(dtype);
        values[rows / 2].zero_();
        const at::Tensor there = values.to(kGpu);
        const at::Tensor matrix = shifts ? shifted(there) : there;
        const std::string what =
            c10::str(dtype, " [", rows, ", ", columns, "]", shifts ? " shifted" : "");
        expect_same_fp8(matrix, what);
        expect_same_fp8(matrix.t(), what + " transposed");
      }
    }
  }
}

TEST(Kernels, WhatIsNotFiniteStaysSoInFloat8) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const at::Tensor matrix = at::ones({32, 48}, at::TensorOptions(kGpu).dtype(at::kBFloat16));
    matrix[5][7] = bad;
    for (const at::Tensor& turned : {matrix, matrix.t()}) {
      const GpuFp8Rows got = fp8_rows_on_gpu(turned, {});
      const at::Tensor values = (got.values.to(at::kFloat) * got.scales).cpu();
      EXPECT_EQ(values.isfinite().logical_not().any(1).sum().item<int64_t>(), 1);
    }
  }
}

// The kernels' rounding leads to the same products, and what is not finite stays visible.
TEST(Kernels, ProductsInFloat8) {
  at::manual_seed(8);
  const at::Tensor b = at::randn({32, 48}).to(at::kBFloat16);
  for (const Fp8 fp8 : {Fp8::kRowwise, Fp8::kTensorwise}) {
    for (const double value : {1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
      at::Tensor a = at::randn({64, 48}).to(at::kBFloat16);
      a[3][5] = value;
      for (const at::Tensor& turned : {a, a.t().contiguous().t()}) {
        const at::Tensor there = turned.to(kGpu);
        const at::Tensor got = fp8_product(there, b.to(kGpu), fp8).cpu().to(at::kFloat);
        const WithoutKernels plain;
        const at::Tensor wanted = fp8_product(turned, b, fp8).to(at::kFloat);
        EXPECT_TRUE(got.isfinite().equal(wanted.isfinite())) << value;
        // Sums of a GPU have another order.
        EXPECT_TRUE(at::allclose(got, wanted, 1e-2, 1e-2, /*equal_nan=*/true)) << value;
      }
    }
  }
}

void check_random_shape(uint64_t seed) {
  RandomShape draw(seed);
  at::manual_seed(seed);
  const at::ScalarType dtype = draw.one_of(kDtypes);
  const bool shifts = draw.flip();
  const int64_t rows = draw.up_to(40);
  const int64_t size = draw.flip() ? draw.up_to(700) : 8 * draw.up_to(90);
  const std::string what = c10::str(dtype, " [", rows, ", ", size, "]", shifts ? " shifted" : "");
  const at::Tensor x = random({rows, size});
  expect_same(kSwiGlu, {x, random({rows, size})}, dtype, shifts, "swiglu " + what);
  expect_same(kNorm, {x, random({size})}, dtype, shifts, "norm " + what);
  expect_same(kNormedSum, {x, random({rows, size}), random({size})}, dtype, shifts, "sum " + what);
  expect_same(loss_for(at::randint(size, {1, rows}, at::kLong)), {x.view({1, rows, size})}, dtype,
              shifts, "loss " + what, expect_each_close);
  const bool reuses = draw.flip();
  expect_same(rotation(reuses, /*per_row=*/draw.flip()),
              {random({draw.up_to(3), draw.up_to(20), 7, 2 * draw.up_to(64)})}, dtype, shifts,
              "rotary " + what);
  const at::Tensor values = x.to(dtype).to(kGpu);
  const at::Tensor matrix = shifts ? shifted(values) : values;
  expect_same_fp8(matrix, "fp8 " + what);
  expect_same_fp8(matrix.t(), "fp8 columns " + what);
}

TEST(Kernels, RandomShapes) {
  for_random_shapes(check_random_shape);
}

}  // namespace
}  // namespace tessera
