// DTensors on real ranks: random meshes, shapes and placements, compared with one process.
#include "tessera/tensor/dtensor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/internal/state.h"
#include "tests/testkit/device.h"
#include "tests/testkit/random_cases.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/throws.h"

namespace tessera {

using namespace comm::detail;

namespace {

using testkit::here;
using testkit::run_ranks;
using Shape = std::vector<int64_t>;

constexpr int64_t kCases = 25;

struct Input {
  Shape mesh;
  Shape shape;
  Placements from;
  Placements to;
  ReduceOp op = ReduceOp::kSum;
};

std::string text_of(const Input& input) {
  return concat("mesh (", join(input.mesh, ","), "), shape (", join(input.shape, ","), "), ",
                to_string(input.from), " to ", to_string(input.to), " by ", to_string(input.op));
}

Shape any_mesh(int64_t size) {
  Shape mesh;
  while (size > 1 && mesh.size() < 3) {
    Shape divisors;
    for (int64_t d = 1; d <= size; ++d) {
      if (size % d == 0) divisors.push_back(d);
    }
    mesh.push_back(*rc::gen::elementOf(divisors));
    size /= mesh.back();
  }
  if (size > 1 || mesh.empty()) mesh.push_back(size);
  return mesh;
}

Placement any_placement(size_t num_dims) {
  const auto dim =
      *rc::gen::inRange<int64_t>(-static_cast<int64_t>(num_dims), static_cast<int64_t>(num_dims));
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
      return Replicate{};
    case 1:
      return StridedShard{dim, *rc::gen::inRange<int64_t>(1, 5)};
    default:
      return Shard{dim};
  }
}

Input any_input(int64_t world_size) {
  Input input;
  input.mesh = any_mesh(world_size);
  const auto num_dims = *rc::gen::inRange<size_t>(1, 4);
  for (size_t i = 0; i < num_dims; ++i) input.shape.push_back(*rc::gen::inRange<int64_t>(0, 10));
  for (size_t i = 0; i < input.mesh.size(); ++i) {
    input.from.push_back(any_placement(num_dims));
    input.to.push_back(any_placement(num_dims));
  }
  input.op = *rc::gen::element(ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax,
                               ReduceOp::kProduct);
  return input;
}

// The same with some Partial axes.
Input any_partial_input(int64_t world_size) {
  Input input = any_input(world_size);
  for (Placement& placement : input.from) {
    if (*rc::gen::arbitrary<bool>()) placement = Partial{input.op};
  }
  return input;
}

DeviceMesh mesh_of(const World& world, const Shape& shape) {
  AxisSizes axes;
  for (const int64_t size : shape) axes.push_back({concat("axis", axes.size()), size});
  return {world, Layout::row_major(axes)};
}

at::Tensor counting(const Shape& shape) {
  return at::arange(at::empty(shape).numel(), here(at::kDouble)).reshape(shape).remainder(7).add(1);
}

// This rank's part, computed without communication.
at::Tensor own_part(const at::Tensor& whole, const DeviceMesh& mesh, const Placements& placements) {
  return distribute_tensor(whole, mesh, placements, {.src_data_rank = std::nullopt}).to_local();
}

void check_round_trip(const World& world, const Input& input) {
  const DeviceMesh mesh = mesh_of(world, input.mesh);
  const at::Tensor whole = counting(input.shape);
  const at::Tensor given = world.rank().value == 0 ? whole : at::zeros_like(whole);
  const DTensor a = distribute_tensor(given, mesh, input.from);
  RANK_EXPECT(a.to_local().equal(own_part(whole, mesh, input.from))) << text_of(input);
  const Box box = get_local_shape_and_global_offset(a);
  RANK_EXPECT(a.to_local().sizes() == at::IntArrayRef(box.shape)) << text_of(input);
  const at::Tensor before = a.to_local().clone();
  const DTensor b = a.redistribute(input.to);
  RANK_EXPECT(b.to_local().equal(own_part(whole, mesh, input.to))) << text_of(input);
  RANK_EXPECT(a.to_local().equal(before)) << "the source is as it was; " << text_of(input);
  RANK_EXPECT(b.redistribute(input.from).to_local().equal(before)) << text_of(input);
  RANK_EXPECT(b.full_tensor().equal(whole)) << text_of(input);
}

// The index of this rank's term, and the number of terms.
std::pair<int64_t, int64_t> term_of(const DeviceMesh& mesh, const Placements& placements) {
  int64_t index = 0;
  int64_t count = 1;
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (!std::holds_alternative<Partial>(placements[axis])) continue;
    index = index * mesh.shape()[axis] + (*mesh.get_coordinate())[axis];
    count *= mesh.shape()[axis];
  }
  return {index, count};
}

at::Tensor reduced(const at::Tensor& terms, ReduceOp op) {
  switch (op) {
    case ReduceOp::kAvg:
      return terms.mean(0);
    case ReduceOp::kMin:
      return terms.amin(0);
    case ReduceOp::kMax:
      return terms.amax(0);
    case ReduceOp::kProduct:
      return terms.prod(0);
    default:
      return terms.sum(0);
  }
}

void check_partial(const World& world, const Input& input) {
  const DeviceMesh mesh = mesh_of(world, input.mesh);
  const auto [index, count] = term_of(mesh, input.from);
  std::vector<at::Tensor> terms;
  for (int64_t i = 0; i < count; ++i) terms.push_back(counting(input.shape).add(i).remainder(3));
  const at::Tensor mine =
      own_part(terms[static_cast<size_t>(index)], mesh, gradient_placements(input.from));
  const DTensor a = DTensor::from_local(mine, mesh, input.from, {.shape = input.shape});
  const at::Tensor whole = count == 1 ? terms[0] : reduced(at::stack(terms), input.op);
  const at::Tensor got = a.redistribute(input.to).to_local();
  const at::Tensor expected = own_part(whole, mesh, input.to);
  const bool exact = input.op != ReduceOp::kAvg;
  RANK_EXPECT(exact ? got.equal(expected) : at::allclose(got, expected, 1e-15)) << text_of(input);
  RANK_EXPECT(a.redistribute(input.to).to_local().equal(got)) << "twice the same bits";
}

// The loss is the same on all ranks, so the gradient of each part is that part of the full
// gradient.
void check_gradients(const World& world, const Input& input) {
  const DeviceMesh mesh = mesh_of(world, input.mesh);
  const at::Tensor weights = counting(input.shape).remainder(5).sub(2);
  const at::Tensor local =
      own_part(counting(input.shape), mesh, gradient_placements(input.from)).requires_grad_();
  const DTensor a = DTensor::from_local(local, mesh, input.from, {.shape = input.shape});
  (a.redistribute(input.to).full_tensor() * weights).sum().backward();
  const at::Tensor expected = own_part(weights, mesh, gradient_placements(input.from));
  RANK_EXPECT(local.grad().equal(expected)) << text_of(input);

  // Each rank has its own loss, so the gradients are summed.
  const Placements terms(input.mesh.size(), Partial{});
  const at::Tensor again = local.detach().requires_grad_();
  const DTensor b = DTensor::from_local(again, mesh, input.from, {.shape = input.shape});
  const auto rank = static_cast<double>(world.rank().value);
  (b.full_tensor(terms) * weights * (rank + 1)).sum().backward();
  const auto size = static_cast<double>(world.size());
  RANK_EXPECT(again.grad().equal(expected * (size * (size + 1) / 2))) << text_of(input);
}

void check_properties(World& world) {
  const auto plain = [&] { return any_input(world.size()); };
  const auto partial = [&] { return any_partial_input(world.size()); };
  testkit::for_random_inputs<Input>(world, kCases, plain,
                                    [&](const Input& i) { check_round_trip(world, i); });
  testkit::for_random_inputs<Input>(world, kCases, partial,
                                    [&](const Input& i) { check_partial(world, i); });
  testkit::for_random_inputs<Input>(world, kCases, partial,
                                    [&](const Input& i) { check_gradients(world, i); });
}

TEST(DTensor, PropertiesOn4Ranks) {
  run_ranks(4, check_properties);
}
TEST(DTensor, PropertiesOn6Ranks) {
  run_ranks(6, check_properties);
}
TEST(DTensor, PropertiesOn8Ranks) {
  run_ranks(8, check_properties);
}

uint64_t num_operations(const Group& group) {
  return group.state().communicator()->sequence();
}

// Equal redistributions are one operation, whatever the shapes.
void check_batch(const DeviceMesh& mesh, const Placement& from, const Placement& to,
                 int64_t expected_operations) {
  std::vector<DTensor> tensors;
  for (int64_t i = 1; i <= 5; ++i) {
    const at::Tensor whole = counting({i + 1, 3 * i});
    const at::Tensor local = own_part(whole, mesh, gradient_placements(Placements{from}));
    tensors.push_back(DTensor::from_local(local.clone().requires_grad_(), mesh, {from},
                                          {.shape = whole.sizes().vec(), .check = false}));
  }
  const Group group = mesh.get_group();
  barrier(group);
  const uint64_t before = num_operations(group);
  const auto moved = redistribute(tensors, std::vector<Placements>(5, {to}));
  RANK_EXPECT(static_cast<int64_t>(num_operations(group) - before) == expected_operations)
      << num_operations(group) - before;
  at::Tensor loss = at::zeros({}, here(at::kDouble));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::NoGradGuard no_grad;
    RANK_EXPECT(moved[i].to_local().equal(tensors[i].redistribute({to}).to_local())) << i;
  }
  for (const DTensor& tensor : moved) loss = loss + tensor.to_local().sum();
  loss.backward();
  for (const DTensor& tensor : tensors) {
    RANK_EXPECT(tensor.to_local().grad().equal(at::ones_like(tensor.to_local())));
  }
}

TEST(DTensor, ManyAtOnceAreOneOperation) {
  run_ranks(4, [](World& world) {
    const DeviceMesh mesh(world, Layout::row_major({{"tp", 4}}));
    check_batch(mesh, Shard{0}, Replicate{}, 1);
    check_batch(mesh, Shard{0}, Shard{1}, 1);
    check_batch(mesh, Partial{}, Replicate{}, 1);
    check_batch(mesh, Partial{}, Shard{1}, 1);
    check_batch(mesh, Replicate{}, Shard{1}, 0);
  });
}

bool refused(const std::string& part, const std::function<void()>& body) {
  const std::string message = testkit::message_of<ConfigError>(body);
  return message.find(part) != std::string::npos;
}

// If one rank has wrong arguments, all throw, and the next collective works.
TEST(DTensor, AllRanksRefuse) {
  run_ranks(4, [](World& world) {
    const DeviceMesh mesh(world, Layout::row_major({{"dp", 2}, {"tp", 2}}));
    const bool odd = world.rank().value == 2;
    const Placements rows{Shard{0}, Replicate{}};
    const auto shape = FromLocalOptions{.shape = Shape{4, 3}};
    RANK_EXPECT(refused(odd ? "has shape (5,3), but must have " : "refused on another rank", [&] {
      (void)DTensor::from_local(at::zeros({odd ? 5 : 2, 3}, here()), mesh, rows, shape);
    }));
    RANK_EXPECT(refused("differs between the ranks; here it is a tensor (", [&] {
      (void)DTensor::from_local(at::zeros({odd ? 5 : 2, 3}, here()), mesh, rows);
    }));
    RANK_EXPECT(refused("differs between the ranks", [&] {
      (void)distribute_tensor(at::zeros({odd ? 5 : 4, 3}, here()), mesh, rows);
    }));
    RANK_EXPECT(refused(odd ? "names dimension 2" : "refused on another rank", [&] {
      (void)distribute_tensor(at::zeros({4, 3}, here()), mesh, {Shard{odd ? 2 : 0}, Replicate{}});
    }));
    RANK_EXPECT(refused("src_data_rank 2 does not exist on every axis", [&] {
      (void)distribute_tensor(at::zeros({4, 3}, here()), mesh, rows,
                              {.src_data_rank = GroupRank{2}});
    }));
    RANK_EXPECT(refused("got 1 for a mesh of 2 axes", [&] {
      (void)distribute_tensor(at::zeros({4, 3}, here()), mesh, {Shard{0}});
    }));
    RANK_EXPECT(refused("mix the reductions sum and max", [&] {
      (void)DTensor::from_local(at::zeros({4}, here()), mesh, {Partial{}, Partial{ReduceOp::kMax}});
    }));
    const DTensor tensor = distribute_tensor(at::zeros({4, 3}, here()), mesh, rows);
    RANK_EXPECT(refused("cannot go from S(0) to P(sum)",
                        [&] { (void)tensor.redistribute({Partial{}, Replicate{}}); }));
    const DeviceMesh pair(world, Layout::from_ranks({{"x", 2}}, to_ranks({0, 1})));
    if (!pair.is_member()) {
      RANK_EXPECT(refused("is not in DeviceMesh(x=2)", [&] {
        (void)distribute_tensor(at::zeros({4}, here()), pair, {Shard{0}});
      }));
    }
    RANK_EXPECT(testkit::reduced_rank(world, world.group()) == 6) << "nobody hangs";
  });
}

TEST(DTensor, DistributesPartialValuesExactly) {
  run_ranks(4, [](World& world) {
    const DeviceMesh mesh(world, Layout::row_major({{"dp", 2}, {"tp", 2}}));
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      const at::Tensor whole = counting({5, 3}).div(10);
      const at::Tensor mine = world.rank().value == 0 ? whole : at::zeros_like(whole);
      const DTensor tensor = distribute_tensor(mine, mesh, {Partial{op}, Shard{0}});
      RANK_EXPECT(tensor.full_tensor().equal(whole)) << to_string(op);
    }
  });
}

}  // namespace
}  // namespace tessera
