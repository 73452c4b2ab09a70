#include "tessera/optim/weight_average.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/optim/sgd.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

Parameter filled(at::ScalarType dtype, double value) {
  return {"w", at::full({3}, value, dtype).requires_grad_()};
}

void step(const Parameter& parameter, Optimizer& optimizer, double gradient) {
  parameter.tensor.mutable_grad() = at::full_like(parameter.tensor, gradient);
  optimizer.step(1);
}

TEST(WeightAverage, IsTheFormula) {
  const Parameter w = filled(at::kDouble, 8);
  Sgd sgd({w}, {});
  WeightAverage average({w}, sgd, 0.75);
  step(w, sgd, 4);  // 4
  average.update();
  step(w, sgd, -8);  // 12
  average.update();
  const Parameters averages = average.averages();
  ASSERT_EQ(averages.size(), 1U);
  EXPECT_EQ(averages[0].name, "w");
  EXPECT_TRUE(averages[0].tensor.equal(
      at::full({3}, 0.75 * (0.75 * 8 + 0.25 * 4) + 0.25 * 12, at::kDouble)));
}

// bfloat16 cannot hold 1 - 2^-12; the master copy and the average can.
TEST(WeightAverage, AveragesTheMasterCopies) {
  const Parameter w = filled(at::kBFloat16, 1);
  Sgd sgd({w}, {});
  WeightAverage average({w}, sgd, 0.5);
  step(w, sgd, 1.0 / 4096);
  average.update();
  EXPECT_TRUE(w.tensor.eq(1).all().item<bool>());
  EXPECT_EQ(average.averages()[0].tensor.scalar_type(), at::kFloat);
  EXPECT_TRUE(average.averages()[0].tensor.eq(1 - 1.0 / 8192).all().item<bool>());
}

TEST(WeightAverage, IsUsedForAWhile) {
  const Parameter w = filled(at::kFloat, 8);
  Sgd sgd({w}, {});
  WeightAverage average({w}, sgd, 0.5);
  step(w, sgd, 4);
  average.update();
  const int64_t version = w.tensor._version();
  {
    const WeightAverage::InUse averaged = average.use();
    EXPECT_TRUE(w.tensor.eq(6).all().item<bool>());
    EXPECT_GT(w.tensor._version(), version) << "shards that were gathered before are old";
  }
  EXPECT_TRUE(w.tensor.eq(4).all().item<bool>());
  average.reset();
  EXPECT_TRUE(average.averages()[0].tensor.eq(4).all().item<bool>());
}

TEST(WeightAverage, ChecksItsDecay) {
  const Parameter w = filled(at::kFloat, 1);
  const Sgd sgd({w}, {});
  EXPECT_EQ(message_of<ConfigError>([&] { WeightAverage({w}, sgd, 1); }),
            "the decay of averaged weights must be ≥ 0 and < 1, but is 1");
}

}  // namespace
}  // namespace tessera
