#include "tessera/layer/fp8.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tessera/layer/linear.h"
#include "tessera/layer/unit.h"
#include "tests/testkit/device.h"

namespace tessera {
namespace {

using testkit::here;

constexpr Fp8 kBoth[] = {Fp8::kRowwise, Fp8::kTensorwise};

// Whole numbers up to 7, with a 7 in every row and column: float8 has them exactly, since the scale
// is a power of two. Their products stay exact as long as sums fit into the 8 bits of bfloat16.
at::Tensor whole_numbers(int64_t rows, int64_t columns) {
  at::Tensor made = at::randint(-1, 2, {rows, columns}, here(at::kBFloat16));
  for (int64_t i = 0; i < std::max(rows, columns); ++i) made[i % rows][i % columns] = 7;
  return made;
}

double relative_error(const at::Tensor& got, const at::Tensor& exact) {
  return (got.to(at::kDouble).sub(exact).norm() / exact.norm()).item<double>();
}

TEST(Fp8Product, OfNumbersThatItCanHoldIsExact) {
  const at::Tensor a = whole_numbers(32, 16);
  const at::Tensor b = whole_numbers(48, 16);
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble).t());
  for (const Fp8 fp8 : kBoth) {
    const at::Tensor product = fp8_product(a, b, fp8);
    EXPECT_EQ(product.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(product.to(at::kDouble).equal(exact));
    EXPECT_TRUE(fp8_product(a.t().contiguous().t(), b, fp8).equal(product));
  }
}

// Each value is rounded to 4 bits, by up to 1/16 and about 1/40 in the mean; errors of products are
// independent, so that their sum has the relative error √2/40 of one.
TEST(Fp8Product, OfRandomNumbersIsNear) {
  const at::Tensor a = at::randn({33, 256}, here()).to(at::kBFloat16);
  const at::Tensor b = at::randn({64, 256}, here()).to(at::kBFloat16);
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble).t());
  for (const Fp8 fp8 : kBoth) {
    const double error = relative_error(fp8_product(a, b, fp8), exact);
    EXPECT_LT(error, 0.05);
    EXPECT_GT(error, 0.01);  // It is float8.
  }
}

TEST(Fp8Product, ScalesOfRowsKeepSmallRows) {
  at::Tensor a = at::randn({32, 64}, here()).to(at::kBFloat16);
  a[0].mul_(std::ldexp(1, -40));
  const at::Tensor b = at::randn({16, 64}, here()).to(at::kBFloat16);
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble).t());
  EXPECT_LT(relative_error(fp8_product(a, b, Fp8::kRowwise)[0], exact[0]), 0.1);
  EXPECT_EQ(fp8_product(a, b, Fp8::kTensorwise)[0].abs().max().item<double>(), 0);
}

TEST(Fp8Product, ZerosStayZerosAndWhatIsNotFiniteStaysVisible) {
  for (const Fp8 fp8 : kBoth) {
    at::Tensor a = at::randn({16, 16}, here()).to(at::kBFloat16);
    const at::Tensor b = at::randn({16, 16}, here()).to(at::kBFloat16);
    EXPECT_EQ(fp8_product(a.mul(0), b, fp8).abs().max().item<double>(), 0);
    for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      a[3][5] = bad;
      EXPECT_FALSE(fp8_product(a, b, fp8)[3].isfinite().any().item<bool>());
    }
  }
}

struct Layer {
  at::Tensor x = whole_numbers(32, 16).view({2, 16, 16}).requires_grad_();
  at::Tensor weight = whole_numbers(48, 16).requires_grad_();
  at::Tensor bias = whole_numbers(1, 48)[0].requires_grad_();

  /// y and the gradients of x, weight and bias.
  std::vector<at::Tensor> results(const at::Tensor& gradient, const Pass& pass) const {
    for (const at::Tensor& leaf : {x, weight, bias}) leaf.mutable_grad() = at::Tensor();
    const at::Tensor y = linear(x, weight, bias, pass);
    y.backward(gradient);
    if (pass.deferred != nullptr) pass.deferred->run();
    return {y, x.grad(), weight.grad(), bias.grad()};
  }
};

TEST(Fp8Linear, HasTheThreeProductsOfALinearLayer) {
  const Layer layer;
  const at::Tensor gradient = whole_numbers(32, 48).view({2, 16, 48});
  const auto exact = layer.results(gradient, {});
  const WeightGradients later;
  for (const Fp8 fp8 : kBoth) {
    for (const Pass& pass : {Pass{.fp8 = fp8}, Pass{.deferred = &later, .fp8 = fp8}}) {
      const auto got = layer.results(gradient, pass);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(exact[i])) << i;
    }
  }
}

TEST(Fp8Linear, OtherSizesAndDtypesStayAsTheyAre) {
  for (const auto& [rows, inputs, outputs] : {std::array{32, 24, 48}, {32, 16, 40}}) {
    const at::Tensor x = at::randn({rows, inputs}, here()).to(at::kBFloat16);
    const at::Tensor weight = at::randn({outputs, inputs}, here()).to(at::kBFloat16);
    EXPECT_FALSE(takes_fp8(x, weight, Fp8::kRowwise));
    EXPECT_TRUE(linear_product(x, weight, {}, Fp8::kRowwise).equal(at::linear(x, weight)));
  }
  const at::Tensor x = at::randn({16, 16}, here());
  EXPECT_TRUE(linear_product(x, x, {}, Fp8::kRowwise).equal(at::linear(x, x)));
  const at::Tensor few = at::randn({3, 16}, here()).to(at::kBFloat16);
  // A weight gradient sums over 3 rows, an output over 16 inputs.
  EXPECT_TRUE(linear_weight_gradient(few, few, Fp8::kRowwise).equal(at::mm(few.t(), few)));
  EXPECT_TRUE(takes_fp8(few, x.to(at::kBFloat16), Fp8::kRowwise));
}

TEST(WithFp8, ChangesThePassOfItsUnitsAlone) {
  std::vector<Fp8> seen;
  const Unit unit{.name = "unit", .forward = [&](const at::Tensor& x, const Pass& pass) {
                    seen.push_back(pass.fp8);
                    return x;
                  }};
  const Model plain = model_of({unit, unit, unit, unit}, {});
  const Model model = with_fp8(plain, Fp8::kTensorwise, {1, 3});
  for (const Unit& built : model.build({0, 2})) built.forward({}, {});
  for (const Unit& built : model.build({2, 4})) built.forward({}, {});
  EXPECT_EQ(seen, (std::vector{Fp8::kNone, Fp8::kTensorwise, Fp8::kTensorwise, Fp8::kNone}));
}

}  // namespace
}  // namespace tessera
