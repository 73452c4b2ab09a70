#include "tessera/parallel/recompute/recompute.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <string>

#include "tessera/base/error.h"
#include "tessera/layer/attention.h"
#include "tessera/layer/linear.h"
#include "tessera/layer/norm.h"
#include "tessera/layer/rotary.h"
#include "tests/testkit/device.h"
#include "tests/testkit/live_memory.h"
#include "tests/testkit/operators.h"

namespace tessera {
namespace {

using testkit::here;
using testkit::LiveMemory;
using enum Recompute;

// tanh(x·w) with dropout by the global generator; counts its runs.
struct Layer {
  at::Tensor weight = at::ones({4, 4}, at::kDouble).div_(3).requires_grad_();
  std::shared_ptr<int> runs = std::make_shared<int>(0);

  Unit unit() const {
    const auto forward = [weight = weight, runs = runs](const at::Tensor& x, const Pass&) {
      ++*runs;
      return at::dropout(at::tanh(x.matmul(weight)), 0.5, /*train=*/true);
    };
    return {.name = "layer", .parameters = {{"weight", weight}}, .forward = forward};
  }
};

at::Tensor input() {
  return at::ones({3, 4}, at::kDouble).requires_grad_();
}

TEST(Recompute, GradientsHaveTheSameBits) {
  for (const Recompute what : {kSelective, kFull}) {
    const Layer plain, again;
    const at::Tensor x = input(), y = input();
    at::manual_seed(1);
    plain.unit().forward(x, {}).sum().backward();
    const at::Tensor drawn = at::randn({4});
    at::manual_seed(1);
    recompute(again.unit(), what).forward(y, {}).sum().backward();
    EXPECT_TRUE(y.grad().equal(x.grad()));
    EXPECT_TRUE(again.weight.grad().equal(plain.weight.grad()));
    EXPECT_EQ(*again.runs, 2);
    EXPECT_TRUE(at::randn({4}).equal(drawn)) << "what comes after sees no second run";
  }
}

TEST(Recompute, AnInputWithoutGradientIsFine) {
  const Layer layer;
  recompute(layer.unit(), kFull).forward(input().detach(), {}).sum().backward();
  EXPECT_TRUE(layer.weight.grad().defined());
}

TEST(Recompute, AFrozenUnitIsFine) {
  const Layer layer;
  layer.weight.requires_grad_(false);
  const at::Tensor after = at::ones({4}, at::kDouble).requires_grad_();
  const at::Tensor y = recompute(layer.unit(), kFull).forward(input().detach(), {});
  (y * after).sum().backward();
  EXPECT_TRUE(after.grad().defined());
}

TEST(Recompute, RunsOnceWithoutGradients) {
  const Layer layer;
  const at::NoGradGuard no_grad;
  recompute(layer.unit(), kFull).forward(input(), {});
  EXPECT_EQ(*layer.runs, 1);
}

TEST(Recompute, NoneIsTheUnitItself) {
  const Layer layer;
  recompute(layer.unit(), kNone).forward(input(), {}).sum().backward();
  EXPECT_EQ(*layer.runs, 1);
}

constexpr int64_t kRows = 2, kPositions = 16, kSize = 32, kInner = 96, kHeadSize = 8;

// A block with grouped-query attention, biases and dropout.
struct Block {
  explicit Block(const at::TensorOptions& options) {
    const auto add = [&](const char* name, at::IntArrayRef shape) {
      weights[name] = at::randn(shape, options).mul_(0.2).requires_grad_();
    };
    for (const char* const name : {"q", "o"}) add(name, {kSize, kSize});
    for (const char* const name : {"k", "v"}) add(name, {kSize / 2, kSize});
    for (const char* const name : {"gate", "up"}) add(name, {kInner, kSize});
    add("down", {kSize, kInner});
    for (const char* const name : {"first norm", "second norm", "q bias"}) add(name, {kSize});
  }

  at::Tensor attended(const at::Tensor& x, const Pass& pass) const {
    const auto heads = [&](const at::Tensor& of) { return of.unflatten(-1, {-1, kHeadSize}); };
    const RotaryTable table =
        rotary_table({1, 0.3, 0.1, 0.03}, x.size(1), x.options().requires_grad(false));
    const at::Tensor q = heads(linear(x, weights.at("q"), weights.at("q bias"), pass));
    const at::Tensor k = heads(linear(x, weights.at("k"), {}, pass));
    const at::Tensor v = heads(linear(x, weights.at("v"), {}, pass));
    const at::Tensor mixed = causal_attention(rotate(q, table), rotate(k, table), v, pass);
    return linear(mixed.flatten(2), weights.at("o"), {}, pass);
  }

  at::Tensor forward(const at::Tensor& x, const Pass& pass) const {
    const at::Tensor normed = rms_norm(x, weights.at("first norm"), 1e-5);
    const at::Tensor y = x + at::dropout(attended(normed, pass), 0.25, /*train=*/true);
    const at::Tensor inner = rms_norm(y, weights.at("second norm"), 1e-5);
    const at::Tensor gated = at::silu(linear(inner, weights.at("gate"), {}, pass)) *
                             linear(inner, weights.at("up"), {}, pass);
    return y + at::dropout(linear(gated, weights.at("down"), {}, pass), 0.25, /*train=*/true);
  }

  Unit unit() const {
    return {.name = "block", .forward = [block = *this](const at::Tensor& x, const Pass& pass) {
              return block.forward(x, pass);
            }};
  }

  std::map<std::string, at::Tensor> weights;
};

constexpr size_t kProducts = 7;      // Of a block.
constexpr int64_t kFewBytes = 8192;  // The state of the random generator, a scalar loss.

at::Tensor hidden(const at::TensorOptions& options) {
  return at::randn({kRows, kPositions, kSize}, options).requires_grad_();
}

// The gradients of two blocks over two micro-batches, by name.
std::map<std::string, at::Tensor> gradients_of(Recompute what, at::ScalarType dtype, bool defers) {
  at::manual_seed(7);
  const Block first(here(dtype)), second(here(dtype));
  std::map<std::string, at::Tensor> gradients;
  for (int64_t i = 0; i < 2; ++i) {
    const WeightGradients later;
    const Pass pass{.deferred = defers ? &later : nullptr};
    const at::Tensor x = hidden(here(dtype));
    const at::Tensor y = recompute(first.unit(), what).forward(x, pass);
    recompute(second.unit(), what).forward(y, pass).square().sum().backward();
    later.run();
    gradients["x"] = x.grad();
  }
  for (const auto& [name, weight] : first.weights) gradients["first " + name] = weight.grad();
  for (const auto& [name, weight] : second.weights) gradients["second " + name] = weight.grad();
  return gradients;
}

// Kernels of a GPU add up in any order.
bool are_same(const at::Tensor& a, const at::Tensor& b) {
  if (testkit::device().is_cpu()) return a.equal(b);
  const double tolerance = a.element_size() == 2 ? 0.05 : 1e-4;
  return at::allclose(a, b, tolerance, tolerance * b.abs().max().item<double>());
}

TEST(SelectiveRecompute, GradientsHaveTheSameBits) {
  at::set_num_threads(1);  // Of tensors this small, threads only wait for each other.
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const bool defers : {false, true}) {
      const auto plain = gradients_of(kNone, dtype, defers);
      for (const Recompute what : {kSelective, kFull}) {
        const auto again = gradients_of(what, dtype, defers);
        for (const auto& [name, gradient] : plain) {
          EXPECT_TRUE(are_same(again.at(name), gradient))
              << name << " " << dtype << (defers ? " deferred" : "");
        }
      }
    }
  }
}

// Attention alone, over [rows, positions, 4 heads of queries and `others` of keys and of values].
Unit attention_unit(int64_t others) {
  return {.name = "attention", .forward = [others](const at::Tensor& x, const Pass& pass) {
            const std::vector<at::Tensor> parts = x.tanh().split({4, others, others}, 2);
            return causal_attention(parts[0], parts[1], parts[2], pass).square();
          }};
}

at::Tensor gradient_of_attention(Recompute what, at::ScalarType dtype, int64_t others) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({kRows, kPositions, 4 + 2 * others, 16}, here(dtype));
  recompute(attention_unit(others), what).forward(x.requires_grad_(), {}).sum().backward();
  return x.grad();
}

// LibTorch chooses the fused kernel by dtype and device among those that are enabled, or none.
TEST(SelectiveRecompute, KeepsTheAttentionOfEachKernel) {
  at::Context& context = at::globalContext();
  for (const bool flash : {false, true}) {
    for (const bool cudnn : {false, true}) {
      context.setSDPUseFlash(flash);
      context.setSDPUseCuDNN(cudnn);
      for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
        for (const int64_t others : {2, 4}) {
          const at::Tensor plain = gradient_of_attention(kNone, dtype, others);
          EXPECT_TRUE(are_same(gradient_of_attention(kSelective, dtype, others), plain))
              << dtype << ", flash " << flash << ", cudnn " << cudnn << ", " << others;
        }
      }
    }
  }
}

TEST(SelectiveRecompute, ComputesProductsAndAttentionOnce) {
  for (const Recompute what : {kNone, kSelective, kFull}) {
    at::manual_seed(7);
    const Block block(at::kFloat);
    const at::Tensor x = hidden(at::kFloat);
    const testkit::OperatorCalls calls;
    recompute(block.unit(), what).forward(x, {}).sum().backward();
    const size_t times = what == kFull ? 2 : 1;
    EXPECT_EQ(calls.count("aten::linear"), times * kProducts);
    EXPECT_EQ(calls.count("aten::_scaled_dot_product_flash_attention_for_cpu"), times);
    EXPECT_EQ(calls.count("aten::silu"), what == kNone ? 1U : 2U);
  }
}

int64_t live_bytes() {
  return LiveMemory::watch().bytes();
}

// What one block keeps between its forward and its backward pass, without its input.
int64_t bytes_kept(Recompute what) {
  const Block block(at::kFloat);
  const at::Tensor x = hidden(at::kFloat);
  const int64_t before = live_bytes();
  const at::Tensor loss = recompute(block.unit(), what).forward(x, {}).sum();
  const int64_t kept = live_bytes() - before;
  loss.backward();
  auto gradients = static_cast<int64_t>(x.nbytes());
  for (const auto& [name, weight] : block.weights)
    gradients += static_cast<int64_t>(weight.nbytes());
  EXPECT_LE(live_bytes() - before, gradients + kFewBytes) << "the backward pass frees the rest";
  return kept;
}

TEST(SelectiveRecompute, KeepsProductsAndAttentionAlone) {
  const int64_t rows = kRows * kPositions * static_cast<int64_t>(sizeof(float));
  // q, k, v, attention with its log-sum-exp, o; gate, up, down.
  const int64_t products = rows * (4 * kSize + kSize / kHeadSize) + rows * (2 * kInner + kSize);
  EXPECT_GT(bytes_kept(kNone), products + rows * 2 * kInner);
  EXPECT_GE(bytes_kept(kSelective), products);
  EXPECT_LE(bytes_kept(kSelective), products + kFewBytes);
  EXPECT_LE(bytes_kept(kFull), kFewBytes);
}

// E.g. the logits of a language model's head, which the loss may free.
TEST(SelectiveRecompute, DoesNotKeepTheOutput) {
  const at::Tensor weight = at::rand({1000, kSize}).requires_grad_();
  const Unit head{.name = "head", .forward = [=](const at::Tensor& x, const Pass& pass) {
                    return linear(x.tanh(), weight, {}, pass);
                  }};
  const at::Tensor x = at::rand({64, kSize});
  const at::Tensor plain = [&] {
    head.forward(x, {}).sum().backward();
    return std::exchange(weight.mutable_grad(), {});
  }();
  const int64_t before = live_bytes();
  const at::Tensor loss = recompute(head, kSelective).forward(x, {}).sum();
  EXPECT_LE(live_bytes() - before, kFewBytes);
  loss.backward();
  EXPECT_TRUE(weight.grad().equal(plain));
}

TEST(SelectiveRecompute, RunsASecondBackwardOfOneGraph) {
  at::manual_seed(7);
  const Block block(at::kFloat);
  const at::Tensor x = hidden(at::kFloat);
  const at::Tensor loss = recompute(block.unit(), kSelective).forward(x, {}).sum();
  loss.backward({}, /*retain_graph=*/true);
  const at::Tensor once = x.grad().clone();
  loss.backward();
  EXPECT_TRUE(x.grad().equal(once + once));
}

TEST(SelectiveRecompute, RefusesAResultChangedInPlace) {
  const at::Tensor weight = at::ones({4, 4}, at::kDouble).requires_grad_();
  const Unit unit{.name = "unit", .forward = [=](const at::Tensor& x, const Pass& pass) {
                    return linear(x, weight, {}, pass).mul_(2).tanh();
                  }};
  EXPECT_THROW(recompute(unit, kSelective).forward(input(), {}), StateError);
  recompute(unit, kFull).forward(input(), {}).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
}

}  // namespace
}  // namespace tessera
