// Column- and row-parallel layers on real ranks, compared with one process.
#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/layer/linear.h"
#include "tessera/parallel/recompute/recompute.h"
#include "tessera/parallel/tensor/column_linear.h"
#include "tessera/parallel/tensor/row_linear.h"
#include "tessera/parallel/tensor/sequence.h"
#include "tests/ranks/tensor_parts.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/live_memory.h"
#include "tests/testkit/random_cases.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::kTolerance;
using testkit::largest_difference;
using testkit::message_of;
using testkit::Numbers;
using testkit::part_of;
using testkit::run_ranks;
using testkit::Traffic;
using Tensors = std::vector<at::Tensor>;

struct Mode {
  bool sequence = true;
  bool async = false;
  bool deferred = false;
  Recompute recompute = Recompute::kNone;
  bool bias = true;
};

std::vector<Mode> modes() {
  std::vector<Mode> all;
  for (const auto& [sequence, async] : {std::pair(false, false), {true, false}, {true, true}}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      for (const bool deferred : {false, true}) {
        for (const bool bias : {false, true}) {
          all.push_back({sequence, async, deferred, recompute, bias});
        }
      }
    }
  }
  return all;
}

std::string text_of(const Mode& mode) {
  return concat(mode.sequence ? "sequence " : "plain ", mode.async ? "async " : "",
                mode.deferred ? "deferred " : "", mode.bias ? "bias " : "", "recompute ",
                static_cast<int>(mode.recompute));
}

struct Shape {
  int64_t batch, positions, width, inner, extra;  // Positions per rank.
};

Shape random_shape() {
  const auto size = [](int64_t below) { return *rc::gen::inRange<int64_t>(1, below); };
  return {size(4), size(4), size(9), size(20), size(20)};
}

// Two layers that are multiplied with each other, a third of another width beside them, and a layer
// that joins the first two.
struct Net {
  Net() = default;
  Net(const Shape& shape, bool bias, Numbers& numbers)
      : gate(layer(shape.inner, shape.width, bias, numbers)),
        up(layer(shape.inner, shape.width, bias, numbers)),
        beside(layer(shape.extra, shape.width, bias, numbers)),
        down(layer(shape.width, shape.inner, bias, numbers)) {}

  static LinearWeights layer(int64_t outputs, int64_t inputs, bool bias, Numbers& numbers) {
    return {numbers.leaf({outputs, inputs}), bias ? numbers.leaf({outputs}) : at::Tensor()};
  }

  // The rank's part: rows of the first layers, columns of the last.
  Net part(int64_t size, int64_t rank) const {
    const auto rows = [&](const LinearWeights& of) -> LinearWeights {
      const Span span = tensor_split(of.weight.size(0), size, rank);
      return {part_of(of.weight, 0, span), part_of(of.bias, 0, span)};
    };
    Net net;
    net.gate = rows(gate);
    net.up = rows(up);
    net.beside = rows(beside);
    net.down = {part_of(down.weight, 1, tensor_split(down.weight.size(1), size, rank)),
                down.bias.defined() ? down.bias.detach().clone().requires_grad_() : at::Tensor()};
    return net;
  }

  // The joined result, and that of the layer beside.
  Tensors forward(const at::Tensor& x, const Pass& pass) const {
    const std::array layers{gate, up, beside};
    const Tensors made = column_linear(at::tanh(x), layers, pass);
    return {row_linear(at::sigmoid(made[0]) * made[1], down.weight, down.bias, pass), made[2]};
  }
  Tensors forward_alone(const at::Tensor& x) const {
    const auto apply = [](const at::Tensor& input, const LinearWeights& of) {
      return linear(input, of.weight, of.bias);
    };
    const at::Tensor y = at::tanh(x);
    return {apply(at::sigmoid(apply(y, gate)) * apply(y, up), down), apply(y, beside)};
  }

  LinearWeights gate, up, beside, down;
};

// A net on one process with its loss, Σ coefficient·output, and the same split over the ranks.
struct Trial {
  Trial(const Shape& shape, const Mode& mode, const Group& group, uint64_t seed)
      : mode(mode), size(group.size()), rank(group.rank().value), numbers(seed) {
    const int64_t positions = shape.positions * size;
    x = numbers.leaf({shape.batch, positions, shape.width});
    whole = Net(shape, mode.bias, numbers);
    joined = numbers.tensor({shape.batch, positions, shape.width});
    beside = numbers.tensor({shape.batch, positions, shape.extra});
    outputs = whole.forward_alone(x);
    ((outputs[0] * joined).sum() + (outputs[1] * beside).sum()).backward();

    net = whole.part(size, rank);
    own_positions = mode.sequence ? tensor_split(positions, size, rank) : Span{0, positions};
    own_extra = tensor_split(shape.extra, size, rank);
    own_x = part_of(x, 1, own_positions);
  }

  at::Tensor own_loss(const Tensors& made) const {
    return (made[0] * part_of(joined, 1, own_positions).detach()).sum() +
           (made[1] * part_of(beside, 2, own_extra).detach()).sum();
  }

  // Runs both passes as one recomputed unit; the outputs of both layers, without history.
  Tensors run(const Group& group) const {
    const TensorParallel tensor{group, mode.sequence, mode.async};
    const WeightGradients later;
    Tensors seen;
    const Unit unit{.name = "net", .forward = [&](const at::Tensor& input, const Pass& pass) {
                      const Tensors made = net.forward(input, pass);
                      seen = {made[0].detach(), made[1].detach()};
                      return own_loss(made);
                    }};
    const Pass pass{.deferred = mode.deferred ? &later : nullptr, .tensor = &tensor};
    recompute(unit, mode.recompute).forward(own_x, pass).backward();
    RANK_EXPECT(later.size() == (mode.deferred ? 4U : 0U));
    RANK_EXPECT(net.gate.weight.grad().defined() != mode.deferred);
    const Traffic traffic(group);
    later.run();
    RANK_EXPECT(traffic.operations().empty()) << "deferred products send " << traffic.operations();
    return seen;
  }

  Mode mode;
  int64_t size, rank;
  Numbers numbers;
  at::Tensor x, joined, beside;
  Net whole, net;
  Tensors outputs;
  Span own_positions, own_extra;
  at::Tensor own_x;
};

void expect_close(const at::Tensor& made, const at::Tensor& expected, const std::string& what) {
  RANK_EXPECT(made.defined() && largest_difference(made, expected) < kTolerance) << what;
}

void expect_rows(const LinearWeights& made, const LinearWeights& whole, const Trial& trial,
                 const std::string& what) {
  const Span rows = tensor_split(whole.weight.size(0), trial.size, trial.rank);
  expect_close(made.weight.grad(), whole.weight.grad().narrow(0, rows.begin, rows.size()),
               what + " weight");
  if (!made.bias.defined()) return;
  expect_close(made.bias.grad(), whole.bias.grad().narrow(0, rows.begin, rows.size()),
               what + " bias");
}

// The gradient of a replicated bias is this rank's part of a sum with sequence parallelism.
void expect_down(const Trial& trial, const Group& group) {
  const LinearWeights& whole = trial.whole.down;
  const Span columns = tensor_split(whole.weight.size(1), trial.size, trial.rank);
  expect_close(trial.net.down.weight.grad(),
               whole.weight.grad().narrow(1, columns.begin, columns.size()), "down weight");
  if (!whole.bias.defined()) return;
  at::Tensor made = trial.net.down.bias.grad().clone();
  if (trial.mode.sequence) made = all_reduce(made, group).wait();
  expect_close(made, whole.bias.grad(), "down bias");
}

void check_trial(const Trial& trial, const Group& group) {
  const testing::ScopedTrace trace(__FILE__, __LINE__, text_of(trial.mode));
  const Tensors made = trial.run(group);
  const Span& positions = trial.own_positions;
  const Span& extra = trial.own_extra;
  expect_close(made[0], trial.outputs[0].narrow(1, positions.begin, positions.size()), "joined");
  expect_close(made[1], trial.outputs[1].narrow(2, extra.begin, extra.size()), "beside");
  expect_close(trial.own_x.grad(), trial.x.grad().narrow(1, positions.begin, positions.size()),
               "input");
  expect_rows(trial.net.gate, trial.whole.gate, trial, "gate");
  expect_rows(trial.net.up, trial.whole.up, trial, "up");
  expect_rows(trial.net.beside, trial.whole.beside, trial, "beside");
  expect_down(trial, group);
}

void check_layers(const World& world) {
  testkit::for_random_inputs<Shape>(world, 1, random_shape, [&](const Shape& shape) {
    for (const Mode& mode : modes()) {
      check_trial(Trial(shape, mode, world.group(), 7), world.group());
    }
  });
}

// Sums of small integers are exact, so that pieces cannot change a bit.
void check_async_bits(const World& world) {
  const Group group = world.group();
  Numbers numbers(3);
  const auto integers = [&](at::IntArrayRef shape) { return numbers.tensor(shape).mul(8).round(); };
  const at::Tensor x = integers({2, 3, 5});
  const at::Tensor weight = integers({4, 5}), other = integers({5, 4});
  const TensorParallel plain{group}, pieces{group, true, true};
  const auto result = [&](const TensorParallel& tensor) {
    const Pass pass{.tensor = &tensor};
    const auto leaf = [](const at::Tensor& values) { return values.clone().requires_grad_(); };
    const at::Tensor input = leaf(x), rows = leaf(weight), columns = leaf(other);
    const at::Tensor y = row_linear(column_linear(input, rows, {}, pass), columns, {}, pass);
    y.sum().backward();
    return Tensors{y, input.grad(), rows.grad(), columns.grad()};
  };
  const Tensors expected = result(plain), made = result(pieces);
  for (size_t i = 0; i < made.size(); ++i) RANK_EXPECT(made[i].equal(expected[i])) << i;
}

// A group of one rank has the bits of linear().
void check_group_of_one(const World& world) {
  const TensorParallel alone{world.group({world.rank()})};
  Numbers numbers(5);
  const at::Tensor x = numbers.tensor({2, 3, 5}), weight = numbers.leaf({4, 5});
  const at::Tensor bias = numbers.leaf({4});
  const at::Tensor expected = linear(x, weight, bias);
  for (const TensorParallel* const tensor : {static_cast<const TensorParallel*>(nullptr), &alone}) {
    const Pass pass{.tensor = tensor};
    RANK_EXPECT(column_linear(x, weight, bias, pass).equal(expected));
    RANK_EXPECT(row_linear(x, weight, bias, pass).equal(expected));
    RANK_EXPECT(enter_parallel(x, pass).is_same(x) && leave_parallel(x, pass).is_same(x));
    RANK_EXPECT(gather_positions(x, pass).is_same(x) && cut_positions(x, pass).is_same(x));
  }
}

// What one rank contributes: its coefficient times the input.
void check_enter_and_leave(const World& world, bool sequence) {
  const Group group = world.group();
  const int64_t size = group.size(), rank = group.rank().value;
  const TensorParallel tensor{group, sequence};
  const Pass pass{.tensor = &tensor};
  Numbers numbers(11);
  const at::Tensor x = numbers.tensor({2, 3 * size, 4}), loss = numbers.tensor({2, 3 * size, 4});
  const Span own = sequence ? tensor_split(3 * size, size, rank) : Span{0, 3 * size};
  const at::Tensor mine = part_of(x, 1, own);
  const at::Tensor y =
      leave_parallel(enter_parallel(mine, pass) * static_cast<double>(rank + 1), pass);
  const auto sum = static_cast<double>(size * (size + 1) / 2);
  expect_close(y, x.narrow(1, own.begin, own.size()) * sum, "sum");
  (y * part_of(loss, 1, own).detach()).sum().backward();
  expect_close(mine.grad(), loss.narrow(1, own.begin, own.size()) * sum, "gradient of the sum");
}

void check_gather_and_cut(const World& world) {
  const Group group = world.group();
  const int64_t size = group.size();
  const TensorParallel tensor{group};
  const Pass pass{.tensor = &tensor};
  Numbers numbers(13);
  const at::Tensor x = numbers.tensor({2, 3 * size, 4}), loss = numbers.tensor({2, 3 * size, 4});
  const Span own = tensor_split(3 * size, size, group.rank().value);
  const at::Tensor expected = loss.narrow(1, own.begin, own.size());

  // Every rank computes the same loss of the whole.
  const at::Tensor mine = part_of(x, 1, own);
  const at::Tensor whole = gather_positions(mine, pass);
  RANK_EXPECT(whole.equal(x));
  (whole * loss).sum().backward();
  expect_close(mine.grad(), expected, "gather");

  // Every rank computes the loss of its own positions.
  const at::Tensor all = x.clone().requires_grad_();
  const at::Tensor cut = cut_positions(all, pass);
  RANK_EXPECT(cut.equal(mine));
  (cut * expected).sum().backward();
  expect_close(all.grad(), loss, "cut");
}

// The collectives of a transformer block, and X = the bytes of all positions.
struct Block {
  explicit Block(const World& world) : size(world.size()), x(numbers.leaf({2, 3, 8})) {}

  at::Tensor forward(const at::Tensor& input, const Pass& pass) const {
    const at::Tensor y = half(input, 3, pass);
    return half(y, 2, pass);
  }
  at::Tensor half(const at::Tensor& input, size_t num_layers, const Pass& pass) const {
    const std::vector<LinearWeights> layers(num_layers, {rows});
    return row_linear(column_linear(input, layers, pass)[0], columns, {}, pass);
  }
  double bytes(bool sequence) const {
    return static_cast<double>(x.nbytes()) * (sequence ? static_cast<double>(size) : 1);
  }

  Numbers numbers = Numbers(17);
  int64_t size;
  at::Tensor x;
  at::Tensor rows = numbers.leaf({5, 8});
  at::Tensor columns = numbers.leaf({8, 5});
};

std::string repeated(const std::string& text, int64_t times) {
  std::string all;
  for (int64_t i = 0; i < times; ++i) all += (i == 0 ? "" : " ") + text;
  return all;
}

void check_traffic(const World& world, bool sequence) {
  const TensorParallel tensor{world.group(), sequence};
  const std::string there = sequence ? "all_gather reduce_scatter" : "all_reduce";
  const std::string back = sequence ? "all_gather all_gather reduce_scatter" : "all_reduce";
  for (const Recompute what : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const Block block(world);
    const Unit unit{.name = "block", .forward = [&](const at::Tensor& x, const Pass& pass) {
                      return block.forward(x, pass);
                    }};
    const Traffic forward(world.group());
    const at::Tensor y = recompute(unit, what).forward(block.x, {.tensor = &tensor});
    RANK_EXPECT(forward.operations() == repeated(there, 2)) << forward.operations();
    const Traffic backward(world.group());
    y.sum().backward();
    const std::string again = what == Recompute::kFull ? repeated(there, 2) + " " : "";
    RANK_EXPECT(backward.operations() == again + repeated(back, 2)) << backward.operations();
    if (what == Recompute::kFull) continue;
    const auto size = static_cast<double>(world.size());
    const double formula = (sequence ? 10 : 8) * (size - 1) / size * block.bytes(sequence);
    RANK_EXPECT(std::abs(forward.bytes() - formula) < 1e-6) << forward.bytes() << " " << formula;
  }
}

// In pieces, a block sends as many bytes.
void check_async_traffic(const World& world) {
  const TensorParallel tensor{world.group(), true, true};
  const Block block(world);
  const Traffic traffic(world.group());
  block.forward(block.x, {.tensor = &tensor}).sum().backward();
  const auto size = static_cast<double>(world.size());
  const double formula = 10 * (size - 1) / size * block.bytes(true);
  RANK_EXPECT(std::abs(traffic.bytes() - formula) < 1e-6) << traffic.bytes() << " " << formula;
}

// The backward pass gathers x again, so no layer keeps the gathered one.
void check_memory(const World& world) {
  if (!testkit::device().is_cpu()) return;  // The counter is the CPU allocator's.
  constexpr int64_t kFewBytes = 8192;
  Numbers numbers(23);
  const at::Tensor x = numbers.leaf({2, 64, 64}), weight = numbers.leaf({2, 64});
  for (const bool async : {false, true}) {
    const TensorParallel tensor{world.group(), true, async};
    const testkit::LiveMemory& live = testkit::LiveMemory::watch();
    const int64_t before = live.bytes();
    const at::Tensor y = column_linear(x, weight, {}, {.tensor = &tensor});
    const auto size = static_cast<int64_t>(y.nbytes());
    RANK_EXPECT(live.settles_at(0, before + size + kFewBytes)) << live.bytes() - before - size;
    y.sum().backward();
  }
}

void check_refusals(const World& world) {
  const TensorParallel tensor{world.group()};
  const Pass pass{.tensor = &tensor};
  Numbers numbers(19);
  const int64_t odd = 2 * world.size() + 1;
  const at::Tensor x = numbers.tensor({1, odd, 4}), weight = numbers.leaf({4, 4});
  const std::array<std::function<void()>, 4> calls{
      [&] { row_linear(x, weight, {}, pass); }, [&] { leave_parallel(x, pass); },
      [&] { cut_positions(x, pass); },
      [&] {
        const TensorParallel async{world.group(), true, true};
        row_linear(x, weight, {}, {.tensor = &async});
      }};
  for (const auto& call : calls) {
    const std::string message = message_of<ConfigError>(call);
    RANK_EXPECT(contains(message, concat(odd, " positions")) && contains(message, "--no-sp") &&
                contains(message, concat(world.size(), " ranks")))
        << message;
  }
  const std::string message =
      message_of<ConfigError>([&] { column_linear(x[0], weight, {}, pass); });
  RANK_EXPECT(contains(message, "[batch, positions, width]")) << message;
  const WeightGradients later;
  const Pass deferred{.deferred = &later, .tensor = &tensor};
  const at::Tensor even = numbers.tensor({1, world.size(), 4});
  message_of<ConfigError>([&] { column_linear(even, weight * 2, {}, deferred); });
  message_of<ConfigError>([&] { row_linear(even, weight * 2, {}, deferred); });
  RANK_EXPECT(later.empty());
}

void check_all(const World& world) {
  check_layers(world);
  check_async_bits(world);
  check_group_of_one(world);
  check_enter_and_leave(world, true);
  check_enter_and_leave(world, false);
  check_gather_and_cut(world);
  check_traffic(world, true);
  check_traffic(world, false);
  check_async_traffic(world);
  check_memory(world);
  check_refusals(world);
}

TEST(TensorLayers, EqualOneProcessOn2Ranks) {
  run_ranks(2, check_all);
}
TEST(TensorLayers, EqualOneProcessOn3Ranks) {
  run_ranks(3, check_all);
}
TEST(TensorLayers, EqualOneProcessOn4Ranks) {
  run_ranks(4, check_all);
}
TEST(TensorLayers, EqualOneProcessOn8Ranks) {
  run_ranks(8, check_all);
}

}  // namespace
}  // namespace tessera
