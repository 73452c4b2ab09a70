#include "tessera/optim/clip.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tests/testkit/device.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::here;

Parameter with_gradient(const std::string& name, const at::Tensor& gradient) {
  const at::Tensor tensor = at::zeros(gradient.sizes(), gradient.options()).requires_grad_();
  tensor.mutable_grad() = gradient;
  return {name, tensor};
}

at::Tensor some(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  static at::Generator random = at::detail::createCPUGenerator(1);
  return at::rand(shape, random, at::kDouble).sub(0.5).to(here(dtype));
}

// Computed in another way: all elements in one vector of float64.
double plain_norm(const Parameters& parameters) {
  std::vector<at::Tensor> all;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& gradient = parameter.tensor.grad();
    if (gradient.defined()) all.push_back(gradient.to(at::kDouble).flatten());
  }
  return std::sqrt(at::cat(all).square().sum().item<double>());
}

Parameters some_parameters() {
  Parameters parameters{with_gradient("a", some({30, 7})), with_gradient("b", some({1}))};
  parameters.push_back({"none", at::zeros({4}, here()).requires_grad_()});
  parameters.push_back(with_gradient("empty", some({0})));
  parameters.push_back(with_gradient("c", some({1000})));
  return parameters;
}

TEST(GradNorm, IsThatOfAllGradientsAsOneVector) {
  const Parameters parameters = some_parameters();
  EXPECT_NEAR(grad_norm(parameters), plain_norm(parameters), 1e-6 * plain_norm(parameters));
  const Parameters doubles{with_gradient("a", some({999}, at::kDouble)),
                           with_gradient("b", some({3, 5}, at::kDouble))};
  EXPECT_NEAR(grad_norm(doubles), plain_norm(doubles), 1e-14 * plain_norm(doubles));
  EXPECT_EQ(grad_norm({}), 0);
}

TEST(GradNorm, OfShortFloatsIsNotRoundedToThem) {
  const Parameters parameters{with_gradient("a", some({5000}, at::kBFloat16)),
                              with_gradient("b", some({77}, at::kHalf))};
  EXPECT_NEAR(grad_norm(parameters), plain_norm(parameters), 1e-6 * plain_norm(parameters));
}

// A float32 sum of one element after the other stops growing at 2^24 ones.
TEST(GradNorm, OfManyElementsIsExact) {
  const int64_t count = int64_t{40} << 20;
  const Parameters parameters{with_gradient("a", at::full({count}, 0.1F, here()))};
  const double expected = std::sqrt(static_cast<double>(count)) * static_cast<double>(0.1F);
  EXPECT_NEAR(grad_norm(parameters) / expected, 1, 1e-6);
}

TEST(GradNorm, SquaresOfDisjointPartsAddUp) {
  const Parameters all = some_parameters();
  const Parameters first(all.begin(), all.begin() + 2);
  const Parameters rest(all.begin() + 2, all.end());
  const double sum = grad_square_sum(first).add(grad_square_sum(rest)).item<double>();
  EXPECT_NEAR(std::sqrt(sum), grad_norm(all), 1e-12);
}

TEST(ClipGradNorm, ScalesWhatIsLonger) {
  const Parameters parameters = some_parameters();
  const at::Tensor before = parameters[0].tensor.grad().clone();
  const double norm = plain_norm(parameters);
  EXPECT_NEAR(clip_grad_norm_(parameters, norm / 4), norm, 1e-6 * norm);
  EXPECT_NEAR(plain_norm(parameters), norm / 4, 1e-6 * norm);
  EXPECT_TRUE(parameters[0].tensor.grad().mul(4).allclose(before, 1e-5, 1e-7));  // Same direction.
}

TEST(ClipGradNorm, LeavesTheBitsOfWhatIsNot) {
  const Parameters parameters = some_parameters();
  const at::Tensor before = parameters[0].tensor.grad().clone();
  clip_grad_norm_(parameters, 2 * plain_norm(parameters));
  EXPECT_TRUE(parameters[0].tensor.grad().equal(before));
}

TEST(ClipGradNorm, AFactorOnTheDeviceHasTheBitsOfANumber) {
  for (int i = 0; i < 1000; ++i) {
    const at::Tensor norm = at::exp(some({}, at::kDouble) * 20);
    for (const double limit : {1e-3, 0.3, 1.0, norm.item<double>()}) {
      EXPECT_EQ(clip_factor(norm, limit).item<double>(), clip_factor(norm.item<double>(), limit));
    }
  }
  EXPECT_TRUE(std::isnan(clip_factor(at::full({}, std::nan(""), at::kDouble), 1).item<double>()));
}

TEST(ClipGradNorm, NamesGradientsThatAreNotFinite) {
  Parameters parameters = some_parameters();
  parameters[4].tensor.mutable_grad()[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(grad_norm(parameters)));
  EXPECT_EQ(testkit::message_of<NumericError>([&] { clip_grad_norm_(parameters, 1); }),
            "the norm of the gradients is nan; non-finite are those of 'c'. Resume from an earlier "
            "state with a lower learning rate, or check the data");
  EXPECT_FALSE(parameters[0].tensor.grad().isnan().any().item<bool>());  // Unchanged.
}

TEST(ClipGradNorm, ShortensALongListOfThem) {
  Parameters parameters;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    parameters.push_back(with_gradient(name, at::full({2}, infinity, here())));
  }
  EXPECT_NE(testkit::message_of<NumericError>([&] {
              clip_grad_norm_(parameters, 1);
            }).find("those of 'a', 'b', 'c' and 2 more"),
            std::string::npos);
}

TEST(ClipGradNorm, RefusesANormThatIsNone) {
  EXPECT_EQ(testkit::message_of<ConfigError>([] { clip_grad_norm_({}, 0); }),
            "max_norm must be > 0, but is 0");
}

}  // namespace
}  // namespace tessera
