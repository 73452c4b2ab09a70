// Gradients through collectives, compared with one process that computes the work of all ranks.
#include "tessera/comm/differentiable.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::here;
using testkit::run_ranks;

// The input of rank `rank` and the weights of its loss: small integers, so that sums are exact.
at::Tensor input_of(int64_t rank, at::IntArrayRef shape) {
  return at::arange(at::empty(shape).numel(), here(at::kDouble))
      .reshape(shape)
      .add(rank)
      .remainder(5);
}
at::Tensor weights_of(int64_t rank, at::IntArrayRef shape) {
  return at::arange(at::empty(shape).numel(), here(at::kDouble))
      .reshape(shape)
      .mul(rank + 2)
      .remainder(7);
}

// One process: the inputs of all ranks as leaves, the computation of every rank, the sum of all
// losses, and all gradients.
std::vector<at::Tensor> gradients_together(
    int64_t size, at::IntArrayRef shape,
    const std::function<at::Tensor(const std::vector<at::Tensor>&, int64_t rank)>& output) {
  std::vector<at::Tensor> inputs;
  for (int64_t rank = 0; rank < size; ++rank)
    inputs.push_back(input_of(rank, shape).requires_grad_());
  at::Tensor loss = at::zeros({}, here(at::kDouble));
  for (int64_t rank = 0; rank < size; ++rank) {
    const at::Tensor y = output(inputs, rank);
    loss = loss + (y * weights_of(rank, y.sizes())).sum();
  }
  loss.backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
  return gradients;
}

// This rank's part of the same.
at::Tensor gradient_here(int64_t rank, at::IntArrayRef shape,
                         const std::function<at::Tensor(const at::Tensor&)>& output) {
  const at::Tensor input = input_of(rank, shape).requires_grad_();
  const at::Tensor y = output(input);
  (y * weights_of(rank, y.sizes())).sum().backward();
  return input.grad();
}

void check_gather_and_scatter(const Group& group) {
  const int64_t size = group.size();
  const int64_t me = group.rank().value;
  for (const int64_t dim : {0, 1}) {
    const std::vector<int64_t> shape{2, 3};
    const auto expected = gradients_together(
        size, shape, [&](const auto& inputs, int64_t) { return at::cat(inputs, dim); });
    const at::Tensor got = gradient_here(
        me, shape, [&](const at::Tensor& x) { return differentiable::all_gather(x, group, dim); });
    RANK_EXPECT(got.equal(expected[static_cast<size_t>(me)])) << got;

    const std::vector<int64_t> whole{2 * size, 3 * size};
    const auto sums = gradients_together(size, whole, [&](const auto& inputs, int64_t rank) {
      return at::stack(inputs).sum(0).chunk(size, dim)[static_cast<size_t>(rank)];
    });
    const at::Tensor piece = gradient_here(me, whole, [&](const at::Tensor& x) {
      return differentiable::reduce_scatter(x, group, dim);
    });
    RANK_EXPECT(piece.equal(sums[static_cast<size_t>(me)])) << piece;
  }
}

// The backward of the sum is the identity; every rank's loss counts once, on that rank.
void check_reduce(const Group& group) {
  const int64_t me = group.rank().value;
  const std::vector<int64_t> shape{4};
  const at::Tensor passed = gradient_here(
      me, shape, [&](const at::Tensor& x) { return differentiable::all_reduce(x, group); });
  RANK_EXPECT(passed.equal(weights_of(me, shape)));
  const auto expected = gradients_together(group.size(), shape,
                                           [](const auto& inputs, int64_t) { return inputs[0]; });
  const at::Tensor summed = gradient_here(
      me, shape, [&](const at::Tensor& x) { return differentiable::identity(x, group); });
  RANK_EXPECT(summed.equal(expected[0])) << "one tensor, used by all ranks";
}

void check_exchange(const Group& group) {
  const int64_t size = group.size();
  const int64_t me = group.rank().value;
  // Rank i sends i + j + 1 rows to rank j.
  Sizes send;
  for (int64_t peer = 0; peer < size; ++peer) send.push_back(me + peer + 1);
  int64_t rows = 0;
  for (const int64_t share : send) rows += share;
  const at::Tensor x = input_of(me, {rows, 2}).requires_grad_();
  const at::Tensor y = differentiable::all_to_all(x, send, send, group);
  // The weight of a row identifies its receiver, and so does its gradient.
  (y * static_cast<double>(me + 1)).sum().backward();
  std::vector<at::Tensor> expected;
  for (int64_t peer = 0; peer < size; ++peer) {
    expected.push_back(
        at::full({me + peer + 1, 2}, static_cast<double>(peer + 1), here(at::kDouble)));
  }
  RANK_EXPECT(x.grad().equal(at::cat(expected)));
}

void check_roots(const Group& group) {
  const int64_t size = group.size();
  const int64_t me = group.rank().value;
  const GroupRank root{size - 1};
  const std::vector<int64_t> pieces{size, 3};
  const auto scattered = gradients_together(size, pieces, [&](const auto& inputs, int64_t rank) {
    return inputs[static_cast<size_t>(root.value)][rank] + 0 * inputs[static_cast<size_t>(rank)][0];
  });
  const at::Tensor got = gradient_here(
      me, pieces, [&](const at::Tensor& x) { return differentiable::scatter(x, root, group); });
  RANK_EXPECT(got.equal(scattered[static_cast<size_t>(me)])) << got;

  const std::vector<int64_t> shape{3};
  const at::Tensor mine = gradient_here(
      me, shape, [&](const at::Tensor& x) { return differentiable::gather(x, root, group); });
  RANK_EXPECT(mine.equal(weights_of(root.value, {size, 3})[me])) << mine;
}

void sweep(World& world) {
  const Group group = world.group();
  check_gather_and_scatter(group);
  check_reduce(group);
  check_exchange(group);
  check_roots(group);
}

TEST(Differentiable, World1) {
  run_ranks(1, sweep);
}
TEST(Differentiable, World2) {
  run_ranks(2, sweep);
}
TEST(Differentiable, World3) {
  run_ranks(3, sweep);
}
TEST(Differentiable, World4) {
  run_ranks(4, sweep);
}

}  // namespace
}  // namespace tessera
