#include "tessera/hook/operator_override.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using Stack = std::vector<c10::IValue>;

TEST(OperatorOverride, SeesTensorsAndViewsWhateverTheirData) {
  const at::Tensor weight = at::ones({2, 3}).requires_grad_();
  std::vector<std::string> names;
  const OperatorOverride override({weight}, [&](const c10::OperatorHandle& op, Stack&) {
    names.push_back(op.operator_name().name);
    return false;
  });
  (void)at::matmul(at::ones({1, 3}), weight.t());
  EXPECT_EQ(names, (std::vector<std::string>{"aten::t", "aten::matmul"}));
  weight.set_data(at::ones({4, 3}));
  names.clear();
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(at::matmul(at::ones({1, 3}), weight.t()).size(1), 4);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"aten::t", "aten::matmul"}));
}

TEST(OperatorOverride, RunsInPlaceOfTheOperator) {
  const at::Tensor weight = at::ones({2}), other = at::ones({2});
  {
    const OperatorOverride override({weight}, [](const c10::OperatorHandle& op, Stack& stack) {
      if (op.operator_name().name != "aten::mul") return false;
      stack.resize(stack.size() - op.schema().arguments().size());
      stack.emplace_back(at::zeros({5}));
      return true;
    });
    EXPECT_EQ((weight * other).numel(), 5);
    EXPECT_EQ((other * other).numel(), 2);
    EXPECT_EQ((weight + other).numel(), 2);
    EXPECT_TRUE(OperatorOverride::overrides(weight));
    EXPECT_THROW(OperatorOverride({weight}, {}), ConfigError);
  }
  EXPECT_EQ((weight * other).numel(), 2);
  EXPECT_FALSE(OperatorOverride::overrides(weight));
}

}  // namespace
}  // namespace tessera
