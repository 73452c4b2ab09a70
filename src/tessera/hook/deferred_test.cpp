#include "tessera/hook/deferred.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tessera/base/error.h"
#include "tessera/tensor/unallocated.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

namespace nn = torch::nn;
using testkit::contains;
using testkit::message_of;

bool all_unallocated(const nn::Module& module) {
  const std::vector<at::Tensor> parameters = module.parameters();
  return std::ranges::all_of(parameters, is_unallocated);
}

void expect_equal(const nn::Module& a, const nn::Module& b) {
  const auto other = b.named_parameters();
  ASSERT_EQ(a.named_parameters().size(), other.size());
  for (const auto& item : a.named_parameters()) {
    EXPECT_TRUE(item.value().equal(other[item.key()])) << item.key();
    EXPECT_EQ(item.value().requires_grad(), other[item.key()].requires_grad()) << item.key();
    EXPECT_TRUE(item.value().is_leaf()) << item.key();
    EXPECT_EQ(item.value().strides(), other[item.key()].strides()) << item.key();
  }
  const auto buffers = b.named_buffers();
  ASSERT_EQ(a.named_buffers().size(), buffers.size());
  for (const auto& item : a.named_buffers()) {
    EXPECT_TRUE(item.value().equal(buffers[item.key()])) << item.key();
  }
}

// Built without memory and materialized, a module has the bits of an ordinary one, and the
// generator is left in the same state.
template <class Build>
void expect_ordinary(const Build& build) {
  torch::manual_seed(7);
  const auto ordinary = build();
  const at::Tensor next = torch::rand({3});
  torch::manual_seed(7);
  auto module = build_deferred(build);
  EXPECT_TRUE(all_unallocated(*module));
  for (const at::Tensor& buffer : module->buffers()) EXPECT_FALSE(is_unallocated(buffer));
  materialize(*module, at::kCPU);
  EXPECT_TRUE(torch::rand({3}).equal(next));
  expect_equal(*module, *ordinary);
}

TEST(Deferred, LayersOfLibTorchAreThoseOfOrdinaryConstruction) {
  expect_ordinary([] { return nn::Linear(5, 3); });
  expect_ordinary([] { return nn::Linear(nn::LinearOptions(5, 3).bias(false)); });
  expect_ordinary([] { return nn::Bilinear(2, 3, 4); });
  expect_ordinary([] { return nn::Embedding(11, 4); });
  expect_ordinary([] { return nn::Embedding(nn::EmbeddingOptions(11, 4).padding_idx(2)); });
  expect_ordinary([] { return nn::LayerNorm(nn::LayerNormOptions({6})); });
  expect_ordinary([] { return nn::GroupNorm(2, 6); });
  expect_ordinary([] { return nn::Conv2d(3, 4, 2); });
  expect_ordinary([] { return nn::ConvTranspose1d(3, 4, 2); });
  expect_ordinary([] { return nn::BatchNorm2d(6); });
  expect_ordinary([] { return nn::LSTM(4, 5); });
  expect_ordinary([] { return nn::MultiheadAttention(8, 2); });
  expect_ordinary([] { return nn::Transformer(nn::TransformerOptions(8, 2, 1, 1)); });
  expect_ordinary([] {
    return nn::Sequential(nn::Conv2d(1, 2, 3), nn::BatchNorm2d(2), nn::ReLU(), nn::Flatten(),
                          nn::Linear(8, 4));
  });
}

TEST(Deferred, RunningMeansAreThereBeforeMaterialize) {
  const nn::BatchNorm1d norm = build_deferred([] { return nn::BatchNorm1d(4); });
  EXPECT_TRUE(norm->running_mean.equal(torch::zeros({4})));
  EXPECT_TRUE(norm->running_var.equal(torch::ones({4})));
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 0);
  EXPECT_TRUE(is_unallocated(norm->weight));
}

// A model as users write it: expressions as parameters, tables as buffers and members.
struct NetImpl : nn::Module {
  explicit NetImpl(int64_t width)
      : first(register_module("first", nn::Linear(width, width))),
        scale(register_parameter("scale", torch::randn({width, width}) * 0.02)),
        shift(register_parameter("shift", torch::zeros({width}))),
        turned(register_parameter("turned", torch::randn({width, 2}).t())),
        table(register_buffer("table", torch::arange(width).outer(torch::arange(width)).sin())),
        mask(register_buffer("mask", torch::full({width, width}, -1.0).triu(1))),
        list(register_buffer("list", torch::tensor(std::vector<double>{1, 2, 3}))),
        more(register_buffer("more", torch::tensor({4.0, 5.0}).mul(2))),
        positions(torch::linspace(0, 1, width)) {
    const torch::NoGradGuard no_grad;
    nn::init::orthogonal_(first->weight);
    first->bias.data().normal_(0, 0.02);
    scale[0].fill_(3);
    frozen = register_parameter("frozen", torch::ones({width}), /*requires_grad=*/false);
    rate = torch::linspace(0, 0.5, 3)[2].item<double>();
    turns = torch::arange(5).sum().item<int64_t>();
    chosen = torch::arange(6).nonzero();
  }
  at::Tensor forward(const at::Tensor& x) {
    return first(x).matmul(scale).add(shift).matmul(turned.t()).add(positions.sum());
  }
  nn::Linear first;
  at::Tensor scale, shift, turned, table, mask, list, more, positions, frozen, chosen;
  double rate = 0;
  int64_t turns = 0;
};
TORCH_MODULE(Net);

TEST(Deferred, AUsersModuleIsThatOfOrdinaryConstruction) {
  expect_ordinary([] { return Net(6); });
}

TEST(Deferred, ConstantsHaveTheirValues) {
  const Net net = build_deferred([] { return Net(6); });
  EXPECT_EQ(net->rate, 0.5);
  EXPECT_EQ(net->turns, 10);
  EXPECT_EQ(net->chosen.numel(), 5);
  EXPECT_TRUE(net->positions.equal(torch::linspace(0, 1, 6)));
  EXPECT_TRUE(net->list.equal(torch::tensor({1.0, 2.0, 3.0}, at::kDouble).to(net->list.dtype())));
  EXPECT_TRUE(net->more.equal(torch::tensor({8.0, 10.0})));
}

TEST(Deferred, AMaterializedModuleTrains) {
  torch::manual_seed(3);
  Net ordinary(6);
  torch::manual_seed(3);
  Net net = build_deferred([] { return Net(6); });
  materialize(*net, at::kCPU);
  const at::Tensor x = torch::ones({2, 6});
  for (Net* const one : {&ordinary, &net}) (*one)->forward(x).sum().backward();
  EXPECT_TRUE(net->first->weight.grad().equal(ordinary->first->weight.grad()));
  EXPECT_FALSE(net->frozen.grad().defined());
}

TEST(Deferred, AnInitFunctionSetsTheValues) {
  nn::Sequential net = build_deferred([] { return nn::Sequential(nn::Linear(2, 3)); });
  materialize(*net, at::kCPU, [](nn::Module& module) {
    for (at::Tensor& parameter : module.parameters()) parameter.fill_(0.5);
  });
  EXPECT_TRUE(net->forward(torch::ones({1, 2})).equal(torch::full({1, 3}, 1.5)));
}

TEST(Deferred, TiedParametersStayOneTensor) {
  struct Tied : nn::Module {
    Tied() : a(register_module("a", nn::Linear(4, 4))), b(register_module("b", nn::Linear(4, 4))) {
      b->weight = b->register_parameter("shared", a->weight);
    }
    nn::Linear a, b;
  };
  const auto net = build_deferred([] { return std::make_shared<Tied>(); });
  materialize(*net, at::kCPU);
  EXPECT_TRUE(net->a->weight.is_same(net->b->weight));
  EXPECT_FALSE(is_unallocated(net->b->weight));
}

TEST(Deferred, ABuildInsideAnotherIsPartOfIt) {
  torch::manual_seed(7);
  nn::Sequential ordinary;
  for (int i = 0; i < 2; ++i) ordinary->push_back(nn::Linear(3, 3));
  torch::manual_seed(7);
  const auto net = build_deferred([] {
    nn::Linear inner = build_deferred([] { return nn::Linear(3, 3); });
    const nn::Linear outer(3, 3);
    return std::make_shared<nn::SequentialImpl>(inner, outer);
  });
  EXPECT_TRUE(all_unallocated(*net));
  materialize(*net, at::kCPU);
  expect_equal(*net, *ordinary);
}

TEST(Deferred, TheConstructorMayConvertTheModule) {
  expect_ordinary([] {
    nn::Sequential net(nn::Linear(3, 3), nn::BatchNorm1d(3));
    net->to(at::kBFloat16);
    return net;
  });
}

// Their place in the sequence of random numbers is another one than in ordinary construction.
TEST(Deferred, RandomBuffersDependOnTheSeed) {
  struct Noise : nn::Module {
    Noise() { register_buffer("noise", torch::randn({3})); }
  };
  const auto noise = [](uint64_t seed) {
    torch::manual_seed(seed);
    return build_deferred([] { return std::make_shared<Noise>(); })->buffers().at(0);
  };
  EXPECT_TRUE(noise(1).equal(noise(1)));
  EXPECT_FALSE(noise(1).equal(noise(2)));
}

struct Reads : nn::Module {
  explicit Reads(const std::function<void(Reads&)>& read)
      : linear(register_module("linear", nn::Linear(4, 4))) {
    read(*this);
  }
  nn::Linear linear;
};

std::string refusal(const std::function<void(Reads&)>& read) {
  return message_of<StateError>(
      [&] { build_deferred([&] { return std::make_shared<Reads>(read); }); });
}

TEST(Deferred, AConstructorThatReadsAWeightIsRefused) {
  const std::string advice =
      " reads a tensor that has no values while a module is built without memory; do that after "
      "materialize(), or build the module without build_deferred()";
  EXPECT_EQ(refusal([](Reads& m) { m.linear->weight.norm().item<double>(); }),
            "aten::item" + advice);
  EXPECT_EQ(refusal([](Reads& m) { m.linear->weight.equal(m.linear->weight); }),
            "aten::equal" + advice);
  EXPECT_EQ(refusal([](Reads& m) { m.linear->weight.nonzero(); }), "aten::nonzero" + advice);
  EXPECT_TRUE(contains(refusal([](Reads& m) { m.linear->weight.data_ptr<float>(); }),
                       "the constructor uses the memory of a tensor (data_ptr or accessor)"));
  EXPECT_TRUE(contains(
      refusal([](Reads& m) { m.register_buffer("copy", m.linear->weight.detach().mul(2)); }),
      "buffer 'copy' is computed from a parameter"));
}

TEST(Deferred, ErrorsOfTheConstructorAreItsOwn) {
  const auto wrong = [] {
    return build_deferred([] {
      torch::ones({2, 3}).matmul(torch::ones({2, 3}));
      return nn::Linear(1, 1);
    });
  };
  EXPECT_THROW(wrong(), c10::Error);
  EXPECT_FALSE(is_unallocated(torch::ones({3})));  // And nothing is recorded afterwards.
}

TEST(Deferred, ReadingBeforeMaterializeIsAnError) {
  nn::Linear linear = build_deferred([] { return nn::Linear(2, 2); });
  EXPECT_THROW(linear->forward(torch::ones({1, 2})), c10::Error);
}

TEST(Deferred, AParameterOfUnknownOriginNeedsAnInitFunction) {
  nn::Linear linear(2, 2);
  linear->weight.set_data(unallocated({2, 2}, at::kFloat));
  EXPECT_EQ(message_of<StateError>([&] { materialize(*linear, at::kCPU); }),
            "parameter 'weight' has no memory, and build_deferred() did not build it; give "
            "materialize() a function that sets the values");
}

}  // namespace
}  // namespace tessera
