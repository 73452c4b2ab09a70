#include "tessera/parallel/ddp/internal/backward_passes.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>

#include "tests/testkit/throws.h"

namespace tessera::ddp::detail {
namespace {

/// Records what an observer receives.
struct Heard {
  std::vector<std::string> errors = {};
  Leaves leaves = {};
  FailedPassObserver observer{[this](const Leaves& of_pass, const std::string& error) {
    errors.push_back(error);
    leaves = of_pass;
  }};
};

at::Tensor leaf() {
  return at::ones({3}).requires_grad_();
}

at::Tensor failing_loss(const at::Tensor& x) {
  const at::Tensor loss = x.square().sum();
  loss.register_hook([](const at::Tensor&) { throw std::runtime_error("no more memory"); });
  return loss;
}

bool holds(const Leaves& leaves, const at::Tensor& tensor) {
  return std::any_of(leaves.begin(), leaves.end(),
                     [&](const at::Tensor& each) { return each.is_same(tensor); });
}

TEST(FailedPasses, AreReportedWithTheirLeavesBeforeAnyGradient) {
  const at::Tensor a = leaf(), b = leaf(), other = leaf();
  Heard heard;
  const std::string said =
      testkit::message_of<std::runtime_error>([&] { failing_loss(a * b).backward(); });
  EXPECT_EQ(said, "no more memory") << "the caller gets the original exception";
  EXPECT_EQ(heard.errors, std::vector<std::string>{"no more memory"});
  EXPECT_EQ(heard.leaves.size(), 2U);
  EXPECT_TRUE(holds(heard.leaves, a) && holds(heard.leaves, b) && !holds(heard.leaves, other));
  EXPECT_FALSE(a.grad().defined());
}

TEST(FailedPasses, OthersAreNot) {
  const at::Tensor a = leaf();
  Heard heard;
  a.square().sum().backward();
  EXPECT_TRUE(a.grad().equal(at::ones({3}).mul(2)));
  EXPECT_THROW(torch::autograd::grad({failing_loss(a)}, {a}), std::runtime_error);
  EXPECT_TRUE(heard.errors.empty()) << "grad() changes no leaf";
}

TEST(FailedPasses, AnObserverIsNotCalledAfterItsEnd) {
  const at::Tensor a = leaf();
  { const Heard gone; }
  EXPECT_THROW(failing_loss(a).backward(), std::runtime_error);
}

TEST(PassesInFlight, HaveTheirLeaves) {
  const at::Tensor a = leaf();
  const Heard heard;
  EXPECT_TRUE(leaves_of_passes_in_flight().empty());
  const at::Tensor loss = a.square().sum();
  std::vector<Leaves> seen;
  loss.register_hook([&](const at::Tensor&) { seen = leaves_of_passes_in_flight(); });
  loss.backward();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_TRUE(seen[0].size() == 1 && holds(seen[0], a));
  EXPECT_TRUE(leaves_of_passes_in_flight().empty());
}

}  // namespace
}  // namespace tessera::ddp::detail
