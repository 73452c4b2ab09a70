#include "tessera/train/single_engine.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// The mean square error of a line through the origin.
struct Line {
  at::Tensor slope = at::arange(1, 4, at::kDouble).requires_grad_();

  SingleEngine engine(int64_t accumulate) const {
    const auto loss = [slope = slope](const at::Tensor& x, const at::Tensor& y) {
      return (x.matmul(slope) - y).square().mean();
    };
    return {{{"slope", slope}}, loss, {.accumulate = accumulate}};
  }
};

const at::Tensor kInputs = at::randn({5, 3}, at::kDouble);
const at::Tensor kTargets = at::randn({5}, at::kDouble);

TEST(SingleEngine, TakesTheWholeBatch) {
  EXPECT_EQ(Line().engine(1).rows(7), (RowRange{0, 7}));
}

TEST(SingleEngine, SlicesOfUnevenSizeGiveTheGradientOfTheWhole) {
  const Line whole;
  const at::Tensor loss = whole.engine(1).train_step(kInputs, kTargets);
  for (const int64_t slices : {2, 3, 5}) {
    const Line cut;
    const at::Tensor sum = cut.engine(slices).train_step(kInputs, kTargets);
    EXPECT_TRUE(sum.allclose(loss, 1e-13)) << slices;
    EXPECT_TRUE(cut.slope.grad().allclose(whole.slope.grad(), 1e-13)) << slices;
    EXPECT_FALSE(sum.requires_grad());
  }
}

TEST(SingleEngine, EvaluatesWithoutGradients) {
  const Line line;
  const at::Tensor loss = line.engine(2).evaluate(kInputs, kTargets);
  EXPECT_TRUE(loss.allclose(line.engine(1).train_step(kInputs, kTargets), 1e-13));
  const Line untouched;
  untouched.engine(1).evaluate(kInputs, kTargets);
  EXPECT_FALSE(untouched.slope.grad().defined());
}

TEST(SingleEngine, MeasuresTheGradient) {
  const Line line;
  SingleEngine engine = line.engine(1);
  engine.train_step(kInputs, kTargets);
  const at::Tensor before = line.slope.grad().clone();
  EXPECT_DOUBLE_EQ(engine.grad_norm(), before.norm().item<double>());
  EXPECT_TRUE(line.slope.grad().equal(before));
}

TEST(SingleEngine, RefusesMoreSlicesThanRows) {
  EXPECT_THROW(Line().engine(6).train_step(kInputs, kTargets), ConfigError);
  EXPECT_THROW(Line().engine(0), ConfigError);
}

}  // namespace
}  // namespace tessera
