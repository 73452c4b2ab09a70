// Flat sharded tensors on real ranks: the peer's own tests, random specs, memory, an optimizer.
#include "tessera/tensor/sharded_flat_tensor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "tessera/base/check.h"
#include "tessera/dialect/olmo/tensors.h"
#include "tessera/tensor/storage.h"
#include "tests/testkit/device.h"
#include "tests/testkit/live_memory.h"
#include "tests/testkit/random_cases.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/throws.h"

namespace tessera {

namespace {

using testkit::here;
using testkit::run_ranks;
using Shape = std::vector<int64_t>;

at::Tensor counting(const Shape& shape) {
  return at::arange(at::empty(shape).numel(), here(at::kFloat)).reshape(shape);
}

// The peer's specs: spans of a tensor (2, 3) on two ranks, and the default.
std::vector<std::optional<ShardingSpec>> specs_of_the_peer() {
  const Shape shape{2, 3};
  return {
      ShardingSpec(shape, {{{0, 3}}, {{3, 6}}}),         ShardingSpec(shape, {{{0, 2}}, {{2, 6}}}),
      ShardingSpec(shape, {{{2, 6}}, {{0, 2}}}),         ShardingSpec(shape, {{{0, 6}}, {{6, 6}}}),
      ShardingSpec(shape, {{{0, 2}, {4, 6}}, {{2, 4}}}), std::nullopt};
}

// test_shard_and_gather, with values and with a meta tensor.
template <class Tensor>
void check_shard_and_gather(const Group& group) {
  for (const auto& spec : specs_of_the_peer()) {
    const at::Tensor whole = counting({2, 3});
    const at::Tensor given = group.rank().value == 0 ? whole : at::zeros_like(whole);
    const Tensor tensor = Tensor::shard(given, group, {.sharding_spec = spec});
    RANK_EXPECT(tensor.is_sharded() && tensor.metadata_set());
    RANK_EXPECT(tensor.gather().equal(whole)) << tensor.sharding_spec();
    RANK_EXPECT(tensor.sharded_chunk(whole).equal(tensor.sharded_data()));
    const Tensor meta = Tensor::shard(whole.to(at::kMeta), group, {.sharding_spec = spec});
    RANK_EXPECT(meta.sharded_data().is_cpu() && meta.gather().sizes() == whole.sizes());
  }
}

// test_unshard_reshard_in_place_rank0_only.
template <class Tensor>
void check_rank0_only(const Group& group) {
  const bool first = group.rank().value == 0;
  for (const auto& spec : specs_of_the_peer()) {
    Tensor tensor = Tensor::shard(at::rand({2, 3}, here()), group,
                                  {.sharding_spec = spec, .requires_grad = false});
    const at::Tensor whole = tensor.gather();
    const int64_t shard_numel = tensor.tensor().numel();
    tensor.unshard_(std::nullopt, std::nullopt, true);
    RANK_EXPECT(tensor.tensor().sizes() == (first ? at::IntArrayRef{2, 3} : at::IntArrayRef{0}));
    tensor.reshard_();
    RANK_EXPECT(tensor.tensor().numel() == shard_numel);
    tensor.unshard_(std::nullopt, at::kHalf, true);
    RANK_EXPECT(tensor.tensor().scalar_type() == at::kHalf);
    if (first) {
      RANK_EXPECT(tensor.tensor().equal(whole.to(at::kHalf)));
      tensor.tensor().fill_(0);
    }
    tensor.reshard_(true);
    RANK_EXPECT(tensor.is_sharded() && tensor.tensor().scalar_type() == at::kFloat);
    RANK_EXPECT(tensor.tensor().equal(at::zeros({shard_numel}, here())));
  }
}

// test_unshard_reshard_in_place_with_grads.
template <class Tensor>
void check_grads(const Group& group) {
  for (const auto& spec : specs_of_the_peer()) {
    Tensor tensor = Tensor::shard(at::rand({2, 3}, here()), group,
                                  {.sharding_spec = spec, .requires_grad = true});
    tensor.unshard_();
    tensor.tensor().sum().backward();
    RANK_EXPECT(tensor.grad().equal(at::ones({2, 3}, here())));
    tensor.reshard_();
    RANK_EXPECT(tensor.grad().equal(at::ones({2, 3}, here()))) << "untouched";
    tensor.unshard_();
    tensor.tensor().sum().backward();
    RANK_EXPECT(tensor.grad().equal(at::full({2, 3}, 2.0, here()))) << "accumulated";
    tensor.reshard_();
    tensor.set_sharded_grad(tensor.sharded_chunk(tensor.grad()));
    RANK_EXPECT(tensor.grad().equal(at::full({tensor.sharded_numel()}, 2.0, here())));
  }
}

struct Input {
  Shape shape;
  std::vector<FlatSpans> offsets;
};

// The tensor, split at random places, with the pieces on random ranks.
Input any_input(int64_t num_ranks) {
  Input input;
  const auto num_dims = *rc::gen::inRange<size_t>(0, 4);
  for (size_t i = 0; i < num_dims; ++i) input.shape.push_back(*rc::gen::inRange<int64_t>(0, 6));
  const int64_t numel = at::empty(input.shape).numel();
  input.offsets.resize(static_cast<size_t>(num_ranks));
  for (int64_t begin = 0; begin < numel;) {
    const int64_t end = *rc::gen::inRange(begin + 1, numel + 1);
    const auto rank = *rc::gen::inRange<size_t>(0, input.offsets.size());
    FlatSpans& spans = input.offsets[rank];
    spans.insert(spans.begin() + *rc::gen::inRange<int64_t>(0, std::ssize(spans) + 1),
                 {begin, end});
    begin = end;
  }
  return input;
}

void check_random_spec(const Group& group, const Input& input) {
  const ShardingSpec spec(input.shape, input.offsets);
  const at::Tensor whole = counting(input.shape);
  const at::Tensor given = group.rank().value == 0 ? whole : at::zeros_like(whole);
  auto tensor = ShardedFlatTensor::shard(given, group, {.sharding_spec = spec});
  const at::Tensor shard = tensor.sharded_data().clone();
  RANK_EXPECT(tensor.gather().equal(whole)) << spec;
  RANK_EXPECT(tensor.gather(at::kDouble, true).numel() ==
              (group.rank().value == 0 ? whole.numel() : 0))
      << spec;
  for (int round = 0; round < 2; ++round) {
    tensor.unshard_();
    RANK_EXPECT(tensor.tensor().equal(whole)) << spec;
    tensor.reshard_();
    RANK_EXPECT(tensor.sharded_data().equal(shard)) << spec;
  }
  tensor.unshard_();
  tensor.tensor().mul_(group.rank().value == 0 ? 2 : 5);
  tensor.reshard_(true);
  RANK_EXPECT(tensor.sharded_data().equal(shard * 2)) << "group rank 0 wins; " << spec;
}

void check_all(World& world) {
  const Group group = world.group();
  if (group.size() == 2) {
    check_shard_and_gather<ShardedFlatTensor>(group);
    check_shard_and_gather<ShardedFlatParameter>(group);
    check_rank0_only<ShardedFlatTensor>(group);
    check_rank0_only<ShardedFlatParameter>(group);
    check_grads<ShardedFlatTensor>(group);
    check_grads<ShardedFlatParameter>(group);
  }
  testkit::for_random_inputs<Input>(
      world, 30, [&] { return any_input(group.size()); },
      [&](const Input& input) { check_random_spec(group, input); });
}

TEST(ShardedFlat, On1Rank) {
  run_ranks(1, check_all);
}
TEST(ShardedFlat, On2Ranks) {
  run_ranks(2, check_all);
}
TEST(ShardedFlat, On5Ranks) {
  run_ranks(5, check_all);
}

// Even if others hold the full tensor, reshard frees its memory, and the next unshard restores it.
TEST(ShardedFlat, NoSecondCopyStaysAlive) {
  run_ranks(2, [](World& world) {
    // Only CPU memory is counted, so the tensors are on the CPU on any machine.
    const testkit::LiveMemory& memory = testkit::LiveMemory::watch();
    constexpr int64_t kNumel = 1 << 20;
    constexpr int64_t kSlack = 4096;
    const int64_t before = memory.bytes();
    const auto lives = [&](int64_t numel) { return memory.settles_at(before + 4 * numel, kSlack); };
    for (const bool even : {true, false}) {
      const ShardingSpec spec = even ? ShardingSpec::even({kNumel}, 2)
                                     : ShardingSpec({kNumel}, {{{5, kNumel}}, {{0, 5}}});
      auto tensor = ShardedFlatTensor::shard(at::ones({kNumel}), world.group(),
                                             {.sharding_spec = spec, .requires_grad = true});
      const int64_t mine = tensor.sharded_numel();
      std::vector<at::Tensor> holders;
      for (int round = 0; round < 3; ++round) {
        tensor.unshard_();
        holders.push_back(tensor.tensor());
        RANK_EXPECT(lives(mine + kNumel)) << memory.bytes() - before;
        const at::Tensor loss = tensor.tensor().square().sum();  // Saves the full tensor.
        tensor.reshard_();
        RANK_EXPECT(lives(mine)) << memory.bytes() - before;
        if (freed_storage_throws()) {
          EXPECT_THROW((void)holders[0].sum(), c10::Error) << "given back";
        }
        tensor.unshard_();
        loss.backward();
        RANK_EXPECT(holders[0].equal(at::ones({kNumel}))) << "the same tensor, filled again";
        RANK_EXPECT(tensor.grad().equal(at::full({kNumel}, 2.0)));
        tensor.reshard_();
        tensor.set_sharded_grad({});
      }
      RANK_EXPECT(lives(mine)) << memory.bytes() - before;
    }
  });
}

// Momentum on the shard, full tensors in the loss: the values are those of one process.
TEST(ShardedFlat, AnOptimizerKeepsWorking) {
  run_ranks(3, [](World& world) {
    const at::Tensor start = counting({4, 5}).div(10);
    const at::Tensor target = counting({4, 5}).remainder(3);
    const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
    at::Tensor plain = start.clone().requires_grad_();
    torch::optim::SGD reference({plain}, options);
    auto tensor = ShardedFlatParameter::shard(start, world.group(), {.requires_grad = true});
    torch::optim::SGD optimizer({tensor.sharded_data()}, options);
    for (int step = 0; step < 4; ++step) {
      reference.zero_grad();
      (plain - target).square().sum().backward();
      reference.step();
      tensor.unshard_();
      (tensor.tensor() - target).square().sum().backward();
      tensor.reshard_();
      tensor.set_sharded_grad(tensor.sharded_chunk(tensor.grad()));
      optimizer.step();
      tensor.set_sharded_grad({});
      RANK_EXPECT(tensor.gather().equal(plain)) << "after step " << step;
    }
  });
}

bool refused(const std::string& part, const std::function<void()>& body) {
  const std::string message = testkit::message_of<ConfigError>(body);
  return message.find(part) != std::string::npos;
}

TEST(ShardedFlat, AllRanksRefuse) {
  run_ranks(3, [](World& world) {
    const Group group = world.group();
    const bool odd = world.rank().value == 1;
    const auto shard = [&](const Shape& shape, std::optional<ShardingSpec> spec = std::nullopt) {
      return ShardedFlatTensor::shard(at::zeros(shape, here()), group,
                                      {.sharding_spec = std::move(spec)});
    };
    RANK_EXPECT(refused("differs between the ranks", [&] { shard({odd ? 5 : 4}); }));
    RANK_EXPECT(refused("has spans for 2 ranks, but group",
                        [&] { shard({4}, ShardingSpec::even({4}, 2)); }));
    RANK_EXPECT(refused(odd ? "a tensor of shape (5) does not fit" : "refused on another rank",
                        [&] { shard({odd ? 5 : 4}, ShardingSpec::even({4}, 3)); }));
    ShardedFlatTensor plain(at::zeros({odd ? 3 : 2}, here()));
    RANK_EXPECT(refused(odd ? "the shard of rank 1 has 3 elements" : "refused on another rank",
                        [&] { plain.mark_as_sharded(ShardingSpec::even({6}, 3), group); }));
    EXPECT_THROW((void)plain.sharding_spec(), StateError);
    RANK_EXPECT(refused("data of shape (7) does not fit a tensor of shape (6)", [&] {
      auto tensor = shard({6});
      tensor.unshard_(at::zeros({7}, here()));
    }));
    RANK_EXPECT(testkit::reduced_rank(world, group) == 3) << "nobody hangs";
  });
}

TEST(ShardedFlat, WrapsTensorsOfTheActiveShape) {
  run_ranks(2, [](World& world) {
    auto tensor = ShardedFlatTensor::shard(counting({2, 6}), world.group());
    const ShardedFlatTensor zeros = tensor.wrap(at::zeros_like(tensor.tensor()));
    RANK_EXPECT(zeros.is_sharded() && zeros.sharding_spec() == tensor.sharding_spec());
    RANK_EXPECT(zeros.gather().equal(at::zeros({2, 6}, here())));
    EXPECT_THROW((void)tensor.wrap(at::zeros({2, 6}, here())), ConfigError);
    tensor.unshard_();
    ShardedFlatTensor ones = tensor.wrap(at::ones_like(tensor.tensor()));
    RANK_EXPECT(!ones.is_sharded() && ones.tensor().equal(at::ones({2, 6}, here())));
    ones.reshard_();
    RANK_EXPECT(ones.tensor().equal(at::ones({6}, here())));
  });
}

TEST(ShardedFlat, OfOneDimensionAndWithoutASpec) {
  const ShardedFlatTensor tensor(at::zeros({6}, here()));
  EXPECT_FALSE(tensor.metadata_set());
  EXPECT_EQ(tensor.sharded_shape(), Shape{6});
  EXPECT_EQ(concat(tensor), "ShardedFlatTensor(local_tensor=(6) float)");
  EXPECT_EQ(concat(ShardedFlatTensor(tensor)), concat(tensor)) << "the same tensor";
  EXPECT_EQ(concat(ShardedFlatParameter()),
            "ShardedFlatParameter(local_tensor=(0) float, requires_grad=true)");
  EXPECT_THROW(ShardedFlatTensor(at::zeros({2, 3}, here())), ConfigError);
  EXPECT_THROW(ShardedFlatParameter(at::zeros({2, 3}, here())), ConfigError);
  ShardedFlatParameter parameter;
  parameter.set_sharded_data(at::ones({4}, here()));
  EXPECT_TRUE(parameter.tensor().equal(at::ones({4}, here())) && parameter.requires_grad());
}

// The page's names, on the current world.
TEST(ShardedFlat, OfTheOlmoDialect) {
  run_ranks(8, [](World& world) {
    World::make_current(std::move(world));
    const at::Tensor whole = counting({3});
    const auto tensor = olmo::ShardedFlatTensor::shard(whole);
    RANK_EXPECT(tensor.gather().equal(whole)) << "more ranks than elements";
    RANK_EXPECT(tensor.wrap(tensor.tensor()).sharding_spec() == tensor.sharding_spec());
    auto parameter = olmo::ShardedFlatParameter::shard(whole, std::nullopt, std::nullopt, true,
                                                       std::nullopt, true);
    RANK_EXPECT(parameter.requires_grad());
    olmo::ShardedFlatTensor bare(at::ones({1}, here()));
    bare.mark_as_sharded(olmo::ShardingSpec::even({8}, 8));
    RANK_EXPECT(bare.gather().equal(at::ones({8}, here())));

    // The page's two examples; the second holds on a mesh of one axis.
    const int64_t rank = olmo::get_rank();
    const Shape two_dims{8, 4};
    const Shape one_dim{2};
    const DeviceMesh grid(*World::current(), Layout::row_major({{"host", 2}, {"gpu", 4}}));
    const DeviceMesh line(*World::current(), Layout::row_major({{"gpu", 8}}));
    const Placements twice{Shard{0}, Shard{0}};
    const Placements once{Shard{0}};
    const auto box_of = [](const Shape& shape, const DeviceMesh& mesh, const Placements& placements,
                           std::optional<int64_t> of) {
      return olmo::compute_local_shape_and_global_offset(shape, mesh, placements, of);
    };
    RANK_EXPECT(box_of(two_dims, grid, twice, std::nullopt) == Box{{1, 4}, {rank, 0}});
    const auto dtensor = distribute_tensor(counting({8, 4}), grid, twice);
    for (int64_t other = 0; other < 8; ++other) {
      RANK_EXPECT(olmo::get_local_shape_and_global_offset(dtensor, other) ==
                  Box{{1, 4}, {other, 0}});
      const Box expected = other < 2 ? Box{{1}, {other}} : Box{{0}, {2}};
      RANK_EXPECT(box_of(one_dim, line, once, other) == expected);
      RANK_EXPECT(box_of(one_dim, grid, once, other) == Box{{1}, {other / 4}});
    }
    RANK_EXPECT(box_of(one_dim, line, once, 8) == Box{}) << "outside the mesh";
    World back = std::move(*World::current());
    World::clear_current();
    world = std::move(back);
  });
}

}  // namespace
}  // namespace tessera
