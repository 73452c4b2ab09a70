// Your own module, its layers split over all ranks (tensor parallelism). The network is a small
// transformer that knows nothing of Tessera. It learns to reverse a row of digits:
//
//   own_tensor_parallel
//   tessera run --nproc 2 -- own_tensor_parallel
//
// Both print the same losses, up to rounding. The number of ranks must divide the 12 heads.
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <exception>
#include <iostream>
#include <memory>

#include "tessera/base/text.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/clip.h"
#include "tessera/parallel/tensor/parallelize_module.h"

namespace {

namespace nn = torch::nn;
using namespace tessera;

constexpr int kSteps = 60;
constexpr int64_t kDigits = 10;
constexpr int64_t kPositions = 8;
constexpr int64_t kWidth = 48;
constexpr int64_t kHead = 4;  // The width of a head.

struct AttentionImpl : nn::Module {
  nn::Linear q = register_module("q", nn::Linear(kWidth, kWidth));
  nn::Linear k = register_module("k", nn::Linear(kWidth, kWidth));
  nn::Linear v = register_module("v", nn::Linear(kWidth, kWidth));
  nn::Linear o = register_module("o", nn::Linear(kWidth, kWidth));

  // "-1", not the number of all heads: a rank has its share of them.
  static at::Tensor heads(const at::Tensor& y) {
    return y.view({y.size(0), y.size(1), -1, kHead}).transpose(1, 2);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = at::scaled_dot_product_attention(
        heads(q->forward(x)), heads(k->forward(x)), heads(v->forward(x)));
    return o->forward(y.transpose(1, 2).flatten(2));
  }
};
TORCH_MODULE(Attention);

struct BlockImpl : nn::Module {
  nn::LayerNorm norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  Attention attention = register_module("attention", Attention());
  nn::LayerNorm norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear up = register_module("up", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear down = register_module("down", nn::Linear(4 * kWidth, kWidth));

  at::Tensor forward(at::Tensor x) {
    x = x + attention->forward(norm1->forward(x));
    return x + down->forward(at::gelu(up->forward(norm2->forward(x))));
  }
};
TORCH_MODULE(Block);

struct Net : nn::Module {
  nn::Embedding embedding = register_module("embedding", nn::Embedding(kDigits, kWidth));
  at::Tensor places = register_parameter("places", at::randn({kPositions, kWidth}));
  nn::ModuleList layers = register_module("layers", nn::ModuleList(Block(), Block()));
  nn::Linear head = register_module("head", nn::Linear(kWidth, kDigits));

  // [rows, positions] → [rows, positions, digits]
  at::Tensor forward(const at::Tensor& digits) {
    at::Tensor x = embedding->forward(digits) + places;
    for (const auto& layer : *layers) x = layer->as<Block>()->forward(x);
    return head->forward(x);
  }
};

// All that the network does not know: how to split its layers.
const ParallelPlan kPlan{{"embedding", RowwiseParallel{}},
                         {"layers.*.attention.[qkv]", ColwiseParallel{}},
                         {"layers.*.attention.o", RowwiseParallel{}},
                         {"layers.*.up", ColwiseParallel{}},
                         {"layers.*.down", RowwiseParallel{}},
                         {"head", ColwiseParallel{.output_layouts = Replicate{}}}};

// A seed means the same digits on all ranks.
at::Tensor draw(uint64_t seed, at::Device device) {
  torch::manual_seed(seed);
  return at::randint(kDigits, {64, kPositions}, at::kLong).to(device);
}

// The fraction of digits in the right place.
double accuracy(Net& net, const at::Tensor& digits) {
  const at::NoGradGuard no_grad;
  return net.forward(digits).argmax(2).eq(digits.flip(1)).to(at::kDouble).mean().item<double>();
}

double step(Net& net, const ParallelModule& parallel, AdamW& optimizer, const at::Tensor& digits) {
  optimizer.zero_grad();
  const at::Tensor loss =
      at::cross_entropy_loss(net.forward(digits).flatten(0, 1), digits.flip(1).flatten());
  loss.backward();
  clip_grad_norm_(parallel.parameters(), 1, parallel.group());
  optimizer.step(2e-3);
  return loss.item<double>();
}

int64_t bytes_of(const Parameters& parameters) {
  int64_t bytes = 0;
  for (const Parameter& parameter : parameters) {
    bytes += static_cast<int64_t>(parameter.tensor.nbytes());
  }
  return bytes;
}

// An ordinary network with the trained values, e.g. for torch::save(): no other rank takes part.
std::shared_ptr<Net> whole_net(const ParallelModule& parallel, at::Device device) {
  auto net = std::make_shared<Net>();
  net->to(device);
  const auto own = net->named_parameters();
  const at::NoGradGuard no_grad;
  for (const auto& [name, values] : parallel.full_parameters()) own[name].copy_(values);
  return net;
}

void run() {
  at::set_num_threads(1);  // The network is too small for more.
  World world = World::connect();
  torch::manual_seed(1);
  const auto net = std::make_shared<Net>();
  net->to(world.device());
  const DeviceMesh mesh = init_device_mesh(world, {world.size()}, {"tp"});
  const ParallelModule parallel = parallelize_module(*net, mesh, kPlan);
  AdamW optimizer(parallel.parameters(), {.weight_decay = 0});
  std::cout << concat("rank ", world.rank(), " keeps ", bytes_of(parallel.parameters()),
                      " bytes of parameters\n");

  const bool tells = world.rank() == GlobalRank{0};
  for (int i = 0; i <= kSteps; ++i) {
    const double loss =
        step(*net, parallel, optimizer, draw(static_cast<uint64_t>(i), world.device()));
    if (tells && i % 10 == 0) std::cout << "step " << i << "  loss " << loss << "\n";
  }
  const at::Tensor unseen = draw(/*seed=*/1'000'000, world.device());
  const double split = accuracy(*net, unseen);
  const double whole = accuracy(*whole_net(parallel, world.device()), unseen);
  if (tells) std::cout << "unseen digits  accuracy " << split << "\n";
  if (tells) std::cout << "as an ordinary network  accuracy " << whole << "\n";
  world.close();
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
