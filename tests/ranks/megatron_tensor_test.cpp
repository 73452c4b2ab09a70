// Megatron's tensor-parallel layers on real ranks, against the whole layer in one process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

#include "tessera/base/error.h"
#include "tessera/dialect/megatron/tensor_parallel.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

constexpr int64_t kRanks = 2;

at::Tensor numbers(at::IntArrayRef shape) {
  const int64_t size = at::empty(shape, at::kMeta).numel();
  return at::arange(size, testkit::here(at::kDouble)).sin().view(shape);
}

at::Tensor leaf(const at::Tensor& tensor) {
  return tensor.detach().clone().requires_grad_();
}

bool near(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.allclose(b, 1e-10, 1e-10);
}

// The linear layer in one process, with the gradients of its weighted outputs.
struct Whole {
  at::Tensor x = leaf(numbers({2, 3, 4}));
  at::Tensor weight = leaf(numbers({6, 4}) + 0.5);
  at::Tensor bias = leaf(numbers({6}));
  at::Tensor output = at::linear(x, weight, bias);

  Whole() { backward_of(output); }
  static void backward_of(const at::Tensor& y) { (y * numbers(y.sizes()).cos()).sum().backward(); }
};

void check_column(const Whole& whole, const World& world, const Pass& pass) {
  const auto own = [&](const at::Tensor& tensor) {
    return tensor.detach().chunk(kRanks, 0)[static_cast<size_t>(world.rank().value)];
  };
  const at::Tensor x = leaf(whole.x);
  const at::Tensor weight = leaf(own(whole.weight));
  const at::Tensor bias = leaf(own(whole.bias));
  const at::Tensor y = megatron::column_parallel_linear(x, weight, bias, pass, true);
  Whole::backward_of(y);
  RANK_EXPECT(near(y, whole.output));
  RANK_EXPECT(near(x.grad(), whole.x.grad())) << x.grad() << whole.x.grad();
  RANK_EXPECT(near(weight.grad(), own(whole.weight.grad())));
  RANK_EXPECT(near(bias.grad(), own(whole.bias.grad())));
}

void check_row(const Whole& whole, const World& world, const Pass& pass) {
  const auto own = [&](const at::Tensor& tensor) {
    return tensor.detach().chunk(kRanks, 1)[static_cast<size_t>(world.rank().value)];
  };
  const at::Tensor x = leaf(whole.x);
  const at::Tensor weight = leaf(own(whole.weight));
  const at::Tensor bias = leaf(whole.bias);
  const at::Tensor y = megatron::row_parallel_linear(x, weight, bias, pass, false);
  Whole::backward_of(y);
  RANK_EXPECT(near(y, whole.output));
  RANK_EXPECT(near(x.grad(), whole.x.grad())) << x.grad() << whole.x.grad();
  RANK_EXPECT(near(weight.grad(), own(whole.weight.grad())));
  RANK_EXPECT(near(bias.grad(), whole.bias.grad()));
}

bool refuses(const std::function<void()>& call) {
  try {
    call();
    return false;
  } catch (const ConfigError&) {
    return true;
  }
}

TEST(MegatronTensor, LayersWithWholeInputsAndOutputsEqualOneProcess) {
  testkit::run_ranks(kRanks, [](World& world) {
    const Whole whole;
    TensorParallel tensor{.group = world.group(), .sequence = false};
    const Pass pass{.tensor = &tensor};
    check_column(whole, world, pass);
    check_row(whole, world, pass);
    tensor.sequence = true;
    const at::Tensor x = whole.x.detach();
    RANK_EXPECT(
        refuses([&] { megatron::column_parallel_linear(x, whole.weight, {}, pass, true); }));
    RANK_EXPECT(refuses([&] { megatron::row_parallel_linear(x, whole.weight, {}, pass, false); }));
  });
}

}  // namespace
}  // namespace tessera
